"""Noun phrases, numbers and dates of the embedded corpus, in all their forms."""

from collections.abc import Iterable
from typing import NamedTuple

from vaswani.data.toy import lexicon
from vaswani.data.toy.adjectives import Adjective
from vaswani.data.toy.nouns import PLACES, Noun
from vaswani.data.toy.words import Words

GENDERS = "mfnp"  # columns of the endings: masculine, feminine, neuter, plural
NOMINATIVE, ACCUSATIVE, DATIVE = range(3)  # rows
CASES = {"accusative": ACCUSATIVE, "dative": DATIVE}
DEFINITE = (("er", "ie", "as", "ie"), ("en", "ie", "as", "ie"), ("em", "er", "em", "en"))
STRONG = (("er", "e", "es", "e"), ("en", "e", "es", "e"), ("em", "er", "em", "en"))
EIN = (("", "e", "", "e"), ("en", "e", "", "e"), ("em", "er", "em", "en"))
WEAK = (("e", "e", "e", "en"), ("en", "e", "e", "en"), ("en", "en", "en", "en"))
MIXED = (("er", "e", "es", "en"), ("en", "e", "es", "en"), ("en", "en", "en", "en"))

ICH, DU, ER, WIR, PLURAL = range(5)


class Phrase(NamedTuple):
    """A noun phrase, a name or a pronoun, in every form it can take."""

    subject: str
    """English."""
    object: str
    """English."""
    german: tuple[str, str, str]
    """Nominative, accusative, dative."""
    person: int = ER
    light: bool = False
    """A pronoun or a name: precedes a particle in English (picks Anna up), adverbs in German."""
    indefinite: bool = False
    """Follows adverbs in German."""
    negative: bool = False
    """Has "kein", so that its clause needs no "nicht"."""


PRONOUNS = [
    Phrase(subject, object, (nominative, accusative, dative), person, light=True)
    for person, subject, object, nominative, accusative, dative in (
        (ICH, "I", "me", "ich", "mich", "mir"),
        (DU, "you", "you", "du", "dich", "dir"),
        (ER, "he", "him", "er", "ihn", "ihm"),
        (ER, "she", "her", "sie", "sie", "ihr"),
        (WIR, "we", "us", "wir", "uns", "uns"),
    )
]
WHO = Phrase("who", "who", ("wer", "wen", "wem"))


def join(words: Iterable[str]) -> str:
    """The words with a space between."""
    return " ".join(word for word in words if word)


# Numbers and dates


def number(n: int) -> Words:
    """The number from 0 to 999 in words.

    >>> number(345)
    Words(english='three hundred and forty-five', german='dreihundertfünfundvierzig')
    """
    hundreds, rest = divmod(n, 100)
    tens, unit = divmod(rest, 10)
    digits = ["", "ein", *lexicon.GERMAN_UNITS[2:10]]
    if rest < 20:
        english, german = lexicon.ENGLISH_UNITS[rest], lexicon.GERMAN_UNITS[rest]
    else:
        english, german = lexicon.ENGLISH_TENS[tens], lexicon.GERMAN_TENS[tens]
        if unit:
            english, german = f"{english}-{lexicon.ENGLISH_UNITS[unit]}", f"{digits[unit]}und{german}"
    if not hundreds:
        return Words(english, german)
    english_hundreds, german_hundreds = f"{lexicon.ENGLISH_UNITS[hundreds]} hundred", f"{digits[hundreds]}hundert"
    if not rest:
        return Words(english_hundreds, german_hundreds)
    return Words(f"{english_hundreds} and {english}", german_hundreds + german)


def date(day: int, month: Words) -> Words:
    """The day of the month as an adverbial.

    >>> date(3, lexicon.MONTHS[4][0])
    Words(english='on the third of May', german='am dritten Mai')
    """
    english, german = number(day)
    head, _, last = english.rpartition("-")
    ordinal = lexicon.ENGLISH_ORDINALS.get(last, f"{last}th")
    stem = lexicon.GERMAN_ORDINALS.get(day, f"{german}{'t' if day < 20 else 'st'}")
    return Words(f"on the {head + '-' if head else ''}{ordinal} of {month.english}", f"am {stem}en {month.german}")


# Noun phrases


def noun_phrase(
    determiner: str, noun: Noun, *adjectives: Adjective, plural: bool = False, count: int | None = None
) -> Phrase:
    """A noun with a determiner (a key of `lexicon.DETERMINERS`) or count, and adjectives, all agreeing.

    >>> from vaswani.data.toy.nouns import NOUNS
    >>> from vaswani.data.toy.adjectives import ADJECTIVES
    >>> noun_phrase("the", NOUNS["boy"], ADJECTIVES["small"]).german
    ('der kleine Junge', 'den kleinen Jungen', 'dem kleinen Jungen')
    """
    plural = plural or count is not None
    numeral = number(count) if count is not None else Words("", "")
    english = [determiner.removeprefix("not "), numeral.english, *(a.english for a in adjectives)]
    english = [word for word in (*english, noun.english_plural if plural else noun.english) if word]
    if english[0] == "a" and english[1][0] in "aeiou":
        english[0] = "an"
    stem, declension = lexicon.DETERMINERS[determiner]
    gender = 3 if plural else GENDERS.index(noun.gender[0])
    if declension == "der":
        endings, weak = DEFINITE if stem == "d" else STRONG, WEAK
    else:
        endings, weak = EIN, MIXED if declension else STRONG
    german = []
    for case in (NOMINATIVE, ACCUSATIVE, DATIVE):
        form = noun.german_plural if plural or ("*" in noun.gender and case != NOMINATIVE) else noun.german
        if plural and case == DATIVE and form[-1] not in "ns":
            form += "n"
        determiner_form = stem + endings[case][gender] if declension else stem
        adjective_forms = (a.stem + weak[case][gender] for a in adjectives)
        german.append(join((determiner_form, numeral.german, *adjective_forms, form)))
    return Phrase(
        " ".join(english), " ".join(english), (german[0], german[1], german[2]), PLURAL if plural else ER,
        indefinite=declension == "" or stem in ("ein", "kein"), negative=stem == "kein",
    )  # fmt: skip


def name(word: str) -> Phrase:
    """A person's name, the same in both languages and all cases."""
    return Phrase(word, word, (word, word, word), light=True)


def prepositional(english: str, german: str, case: int, phrase: Phrase) -> Words:
    """Preposition and noun phrase, contracted in German (in dem Garten: im Garten)."""
    first, _, rest = phrase.german[case].partition(" ")
    contracted = lexicon.CONTRACTIONS.get(f"{german} {first}", f"{german} {first}")
    return Words(f"{english} {phrase.object}", join((contracted, rest)))


def location(phrase: Phrase, noun: Noun) -> Words:
    """In the garden, im Garten."""
    english, german, _ = PLACES[noun.english]
    return prepositional(english, german, DATIVE, phrase)


def direction(phrase: Phrase, noun: Noun) -> Words:
    """To the garden, in den Garten."""
    german = PLACES[noun.english][2]
    return prepositional("to", german, DATIVE if german == "zu" else ACCUSATIVE, phrase)
