"""From a trained model to text: beam search, and the translator that runs it over lines."""
