"""The embedded English-German corpus, made by a small grammar."""
