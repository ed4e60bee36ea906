"""The other words of the embedded corpus: names, determiners, adverbials, conjunctions, number words.

Nouns, adjectives and verbs have their own tables (`nouns.py`, `adjectives.py`, `verbs.py`).
"""

from vaswani.data.toy.words import Words

NAMES = ["Anna", "Maria", "Lena", "Peter", "Paul", "Thomas"]
CITIES = [Words("Berlin", "Berlin"), Words("Munich", "München"), Words("Vienna", "Wien"), Words("Cologne", "Köln")]

# english -> german stem, declined like "der", like "ein", or not at all (before strong adjectives)
DETERMINERS = {
    "the": ("d", "der"), "this": ("dies", "der"), "these": ("dies", "der"), "every": ("jed", "der"),
    "which": ("welch", "der"), "a": ("ein", "ein"), "not a": ("kein", "ein"), "not any": ("kein", "ein"),
    "no": ("kein", "ein"), "my": ("mein", "ein"), "your": ("dein", "ein"), "his": ("sein", "ein"),
    "her": ("ihr", "ein"), "our": ("unser", "ein"), "": ("", ""), "how many": ("wie viele", ""),
}  # fmt: skip
POSSESSIVES = ["my", "your", "his", "her", "our"]

CONTRACTIONS = {
    "in dem": "im", "in das": "ins", "an dem": "am", "an das": "ans", "zu dem": "zum", "zu der": "zur", "von dem": "vom"
}  # fmt: skip

MANNERS = {
    "fast": [Words("quickly", "schnell"), Words("slowly", "langsam")],
    "voice": [Words("loudly", "laut"), Words("quietly", "leise")],
    "care": [Words("carefully", "vorsichtig"), Words("quickly", "schnell")],
    "hard": [Words("diligently", "fleißig"), Words("alone", "allein")],
    "early": [Words("early", "früh"), Words("late", "spät")],
    "transport": [Words("by train", "mit dem Zug"), Words("by bus", "mit dem Bus"), Words("by car", "mit dem Auto")],
}
FREQUENCIES = [
    Words("often", "oft"), Words("always", "immer"), Words("never", "nie"), Words("sometimes", "manchmal")
]  # fmt: skip
TIMES = {
    "past": [
        Words("yesterday", "gestern"), Words("last week", "letzte Woche"), Words("this morning", "heute Morgen"),
        Words("yesterday evening", "gestern Abend"),
    ],
    "habit": [
        Words("every day", "jeden Tag"), Words("in the evening", "am Abend"), Words("in summer", "im Sommer"),
        Words("every morning", "jeden Morgen"),
    ],
    "now": [Words("now", "jetzt"), Words("today", "heute")],
    "future": [
        Words("tomorrow", "morgen"), Words("next week", "nächste Woche"), Words("tomorrow evening", "morgen Abend"),
        Words("this evening", "heute Abend"),
    ],
}  # fmt: skip
PERIODS = [Words("days", "Tagen"), Words("weeks", "Wochen"), Words("years", "Jahren")]
WEEKDAYS = [
    Words("Monday", "Montag"), Words("Tuesday", "Dienstag"), Words("Wednesday", "Mittwoch"),
    Words("Thursday", "Donnerstag"), Words("Friday", "Freitag"), Words("Saturday", "Samstag"),
    Words("Sunday", "Sonntag"),
]  # fmt: skip
MONTHS = [
    (Words("January", "Januar"), 31), (Words("February", "Februar"), 28), (Words("March", "März"), 31),
    (Words("April", "April"), 30), (Words("May", "Mai"), 31), (Words("June", "Juni"), 30),
    (Words("July", "Juli"), 31), (Words("August", "August"), 31), (Words("September", "September"), 30),
    (Words("October", "Oktober"), 31), (Words("November", "November"), 30), (Words("December", "Dezember"), 31),
]  # fmt: skip

# conjunction -> its clause's mood and the main clause's ("": the same, past or present), level
CONJUNCTIONS = {
    Words("because", "weil"): ("", "", 1),
    Words("although", "obwohl"): ("", "", 1),
    Words("if", "wenn"): ("condition", "consequence", 1),
    Words("before", "bevor"): ("condition", "consequence", 2),
    Words("while", "während"): ("progressive", "progressive", 2),
    Words("as soon as", "sobald"): ("condition", "consequence", 3),
    Words("so that", "damit"): ("ability", "present", 3),
}

_ENGLISH_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
ENGLISH_UNITS = [*_ENGLISH_UNITS.split(), "seventeen", "eighteen", "nineteen"]
ENGLISH_TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_GERMAN_UNITS = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn"
)
GERMAN_UNITS = [*_GERMAN_UNITS.split(), "siebzehn", "achtzehn", "neunzehn"]
GERMAN_TENS = ["", "", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]
ENGLISH_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth", "twenty": "twentieth", "thirty": "thirtieth",
}  # fmt: skip
GERMAN_ORDINALS = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}
