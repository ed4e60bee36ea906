"""The embedded corpus: its German, checked by hand, and the sets made of it."""

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from vaswani.data.toy import lexicon
from vaswani.data.toy.adjectives import ADJECTIVES
from vaswani.data.toy.draw import Draw
from vaswani.data.toy.grammar import LONGEST, Grammar, generate
from vaswani.data.toy.nouns import NOUNS
from vaswani.data.toy.phrases import (
    ACCUSATIVE,
    DATIVE,
    PLURAL,
    PRONOUNS,
    WHO,
    Phrase,
    date,
    location,
    name,
    noun_phrase,
    number,
    prepositional,
)  # fmt: skip
from vaswani.data.toy.syntax import (
    Clause,
    after_subordinate,
    attach,
    coordinate,
    english,
    finish,
    finite,
    german,
    purpose,
    question,
    relative,
    statement,
    subordinate,
)  # fmt: skip
from vaswani.data.toy.verbs import MODALS, PRESENT, PRETERITE, VERBS
from vaswani.data.toy.words import Words
from vaswani.schema import ToyConfig

ICH, DU, ER, SIE, WIR = PRONOUNS
ANNA, PETER, MARIA = name("Anna"), name("Peter"), name("Maria")
YESTERDAY, TODAY, TOMORROW = Words("yesterday", "gestern"), Words("today", "heute"), Words("tomorrow", "morgen")
THAT, WHETHER, BECAUSE = Words("that", "dass"), Words("whether", "ob"), Words("because", "weil")
IF, ALTHOUGH, WHILE = Words("if", "wenn"), Words("although", "obwohl"), Words("while", "während")
HOME = Words("home", "nach Hause")
VIENNA = Words("to Vienna", "nach Wien")
BY_TRAIN = Words("by train", "mit dem Zug")


def np(determiner: str, noun: str, *adjectives: str, **options) -> Phrase:
    return noun_phrase(determiner, NOUNS[noun], *(ADJECTIVES[a] for a in adjectives), **options)


def the(noun: str, *adjectives: str, **options) -> Phrase:
    return np("the", noun, *adjectives, **options)


def at(noun: str) -> Words:
    return location(the(noun), NOUNS[noun])


def say(subject: Phrase, verb: str, **parts) -> Clause:
    """A clause; its modal verb by name, its predicate adjective as `be`."""
    if "modal" in parts:
        parts["modal"] = MODALS[parts["modal"]]
    if "be" in parts:
        adjective = ADJECTIVES[parts.pop("be")]
        parts["complement"] = Words(adjective.english, adjective.german)
    return Clause(VERBS[verb], subject, **parts)


def past(subject: Phrase, verb: str, **parts) -> Clause:
    return say(subject, verb, tense="past", **parts)


def now(subject: Phrase, verb: str, **parts) -> Clause:
    return say(subject, verb, tense="progressive", **parts)


def told(clause: Clause, conjunction: Words, tail: Clause) -> Words:
    return statement(replace(clause, tail=subordinate(conjunction, tail)))


MAY = lexicon.MONTHS[4][0]
EUROS = Words(f"{number(345).english} euros", f"{number(345).german} Euro")
LOST_KEY = relative(NOUNS["man"], past(WHO, "lose", accusative=np("his", "key")), plural=False, role="subject")
YOU_WROTE = relative(NOUNS["letter"], past(DU, "write"), plural=False, role="accusative")

# Each pair was written down by hand; the derivation before it is one that `Grammar` can draw.
PAIRS = [
    # Separable verbs: split; joined as participle, infinitive, with zu, and where the verb is final.
    (statement(now(the("boy"), "open", accusative=the("window", "small"))),
     "The boy is opening the small window.", "Der Junge macht das kleine Fenster auf."),
    (statement(past(the("boy"), "open", accusative=the("door"), time=YESTERDAY), "time"),
     "Yesterday the boy opened the door.", "Gestern hat der Junge die Tür aufgemacht."),
    (statement(say(the("boy"), "open", accusative=the("door"), modal="have to")),
     "The boy has to open the door.", "Der Junge muss die Tür aufmachen."),
    (told(say(SIE, "know"), THAT, now(the("boy"), "open", accusative=the("door"))),
     "She knows that the boy is opening the door.", "Sie weiß, dass der Junge die Tür aufmacht."),
    (statement(now(ER, "go", complement=HOME, tail=purpose(say(ER, "open", accusative=the("door"))))),
     "He is going home to open the door.", "Er geht nach Hause, um die Tür aufzumachen."),
    (statement(now(DU, "take off", accusative=np("your", "coat"))),
     "You are taking off your coat.", "Du ziehst deinen Mantel aus."),
    (statement(say(SIE, "pick up", accusative=ER, modal="want to", place=at("airport"))),
     "She wants to pick him up at the airport.", "Sie will ihn am Flughafen abholen."),
    # The perfect with haben and sein; time, manner, place; dates.
    (statement(past(the("child", "tired"), "fall asleep")),
     "The tired child fell asleep.", "Das müde Kind ist eingeschlafen."),
    (statement(now(np("my", "brother"), "travel", time=TODAY, manner=BY_TRAIN, complement=VIENNA)),
     "My brother is travelling to Vienna by train today.", "Mein Bruder reist heute mit dem Zug nach Wien."),
    (statement(past(np("my", "brother"), "travel", time=date(3, MAY), manner=BY_TRAIN, complement=VIENNA)),
     "My brother travelled to Vienna by train on the third of May.",
     "Mein Bruder ist am dritten Mai mit dem Zug nach Wien gereist."),
    (statement(past(ER, "dance", manner=prepositional("with", "mit", DATIVE, np("a", "woman", "friendly")))),
     "He danced with a friendly woman.", "Er hat mit einer freundlichen Frau getanzt."),
    (statement(now(the("girl", plural=True), "bake", accusative=np("a", "cake"), place=at("kitchen")), "place"),
     "In the kitchen the girls are baking a cake.", "In der Küche backen die Mädchen einen Kuchen."),
    # Subordinate clauses, and the inversion after one that comes first.
    (told(past(ICH, "sleep"), BECAUSE, past(ICH, "be", be="sick")),
     "I slept because I was sick.", "Ich habe geschlafen, weil ich krank war."),
    (after_subordinate(subordinate(BECAUSE, past(the("coffee"), "be", be="cold")),
                       past(the("doctor"), "drink", accusative=np("", "milk", "warm"))),
     "Because the coffee was cold, the doctor drank warm milk.",
     "Weil der Kaffee kalt war, hat der Arzt warme Milch getrunken."),
    (after_subordinate(subordinate(IF, say(DU, "call", accusative=ICH, time=TOMORROW)),
                       say(ICH, "come back", modal="will")),
     "If you call me tomorrow, I will come back.", "Wenn du mich morgen anrufst, werde ich zurückkommen."),
    (after_subordinate(subordinate(ALTHOUGH, say(WIR, "be", be="tired")), say(WIR, "work", modal="have to")),
     "Although we are tired, we have to work.", "Obwohl wir müde sind, müssen wir arbeiten."),
    (told(now(the("uncle"), "sing"), WHILE, now(the("farmer"), "wash", accusative=the("car", "dirty"))),
     "The uncle is singing while the farmer is washing the dirty car.",
     "Der Onkel singt, während der Bauer das schmutzige Auto wäscht."),
    (told(past(SIE, "ask"), WHETHER, past(the("boy", plural=True), "play", modal="allowed to", place=at("garden"))),
     "She asked whether the boys were allowed to play in the garden.",
     "Sie hat gefragt, ob die Jungen im Garten spielen durften."),
    (statement(now(attach(the("man"), LOST_KEY), "wait for", place=at("station"),
                   complement=prepositional("for", "auf", ACCUSATIVE, the("train")))),
     "The man who lost his key is waiting for the train at the station.",
     "Der Mann, der seinen Schlüssel verloren hat, wartet am Bahnhof auf den Zug."),
    (statement(now(ICH, "read", accusative=the("letter"), tail=YOU_WROTE)),
     "I am reading the letter that you wrote.", "Ich lese den Brief, den du geschrieben hast."),
    # Case, gender, adjectives.
    (statement(say(the("woman"), "give", dative=the("man", "old"), accusative=np("a", "apple", "fresh"))),
     "The woman gives the old man a fresh apple.", "Die Frau gibt dem alten Mann einen frischen Apfel."),
    (statement(say(the("student", plural=True), "thank", dative=the("neighbour"))),
     "The students thank the neighbour.", "Die Studenten danken dem Nachbarn."),
    (statement(say(np("", "man", "strong", count=2), "look for", accusative=np("", "bird", "small", count=6))),
     "Two strong men look for six small birds.", "Zwei starke Männer suchen sechs kleine Vögel."),
    (statement(past(ICH, "buy", accusative=np("this", "hat", "expensive"),
                    manner=prepositional("for", "für", ACCUSATIVE, the("boy")))),
     "I bought this expensive hat for the boy.", "Ich habe diesen teuren Hut für den Jungen gekauft."),
    (statement(say(np("my", "sister"), "be", complement=Words("older than her friend", "älter als ihr Freund"))),
     "My sister is older than her friend.", "Meine Schwester ist älter als ihr Freund."),
    (statement(say(np("every", "child"), "sing", modal="like to")),
     "Every child likes to sing.", "Jedes Kind singt gern."),
    # Negation.
    (statement(say(np("our", "teacher"), "have", accusative=np("not a", "car", "red"), negated=True)),
     "Our teacher does not have a red car.", "Unser Lehrer hat kein rotes Auto."),
    (statement(past(WIR, "buy", accusative=np("not any", "chair", "new", plural=True), negated=True)),
     "We did not buy any new chairs.", "Wir haben keine neuen Stühle gekauft."),
    (statement(past(ICH, "find", accusative=np("your", "hat", "black"), negated=True)),
     "I did not find your black hat.", "Ich habe deinen schwarzen Hut nicht gefunden."),
    (statement(say(PETER, "work", place=at("office"), modal="can", negated=True)),
     "Peter cannot work in the office.", "Peter kann nicht im Büro arbeiten."),
    (statement(say(np("no", "student"), "help", dative=the("farmer"), modal="can")),
     "No student can help the farmer.", "Kein Student kann dem Bauern helfen."),
    (statement(past(ANNA, "eat", accusative=np("", "meat"), frequency=Words("never", "nie"))),
     "Anna never ate meat.", "Anna hat nie Fleisch gegessen."),
    # Questions.
    (question(say(MARIA, "invite", accusative=WIR, modal="will")),
     "Will Maria invite us?", "Wird Maria uns einladen?"),
    (question(past(SIE, "show", dative=DU, accusative=the("coat", "green"))),
     "Did she show you the green coat?", "Hat sie dir den grünen Mantel gezeigt?"),
    (question(say(WHO, "have", accusative=np("a", "dog"))),
     "Who has a dog?", "Wer hat einen Hund?"),
    (question(past(the("mother"), "visit"), Words("who", "wen")),
     "Who did the mother visit?", "Wen hat die Mutter besucht?"),
    (question(now(DU, "help"), Words("who", "wem")),
     "Who are you helping?", "Wem hilfst du?"),
    (question(now(the("girl"), "wait for", complement=Words("for", "")), Words("who", "auf wen")),
     "Who is the girl waiting for?", "Auf wen wartet das Mädchen?"),
    (question(past(np("your", "friend"), "drive"), Words("where", "wohin")),
     "Where did your friend drive?", "Wohin ist dein Freund gefahren?"),
    (question(say(the("doctor"), "live"), Words("where", "wo")),
     "Where does the doctor live?", "Wo wohnt der Arzt?"),
    (question(now(SIE, "put on"), Words("which dress", "welches Kleid")),
     "Which dress is she putting on?", "Welches Kleid zieht sie an?"),
    (question(say(DU, "get up"), Words("when", "wann")),
     "When do you get up?", "Wann stehst du auf?"),
    # Numbers; clauses joined.
    (statement(past(np("this", "car"), "cost", complement=EUROS)),
     "This car cost three hundred and forty-five euros.", "Dieses Auto hat dreihundertfünfundvierzig Euro gekostet."),
    (coordinate(told(say(ER, "say"), THAT, say(ER, "be", be="hungry")), "and",
                statement(now(SIE, "cook", accusative=the("soup")))),
     "He says that he is hungry, and she is cooking the soup.",
     "Er sagt, dass er hungrig ist, und sie kocht die Suppe."),
    (coordinate(statement(past(the("bread"), "be", be="expensive")), "but",
                statement(past(WIR, "buy", accusative=np("a", "cake"), place=at("market")))),
     "The bread was expensive, but we bought a cake at the market.",
     "Das Brot war teuer, aber wir haben auf dem Markt einen Kuchen gekauft."),
]  # fmt: skip


@pytest.mark.parametrize(("words", "english_sentence", "german_sentence"), PAIRS)
def test_hand_checked_pairs(words, english_sentence, german_sentence):
    assert finish(words, english_sentence[-1]) == (english_sentence, german_sentence)


def test_there_are_forty_hand_checked_pairs():
    assert len({pair[1] for pair in PAIRS}) == len(PAIRS) >= 40


@pytest.mark.parametrize(
    ("n", "english_number", "german_number"),
    [
        (0, "zero", "null"),
        (1, "one", "eins"),
        (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"),
        (21, "twenty-one", "einundzwanzig"),
        (30, "thirty", "dreißig"),
        (67, "sixty-seven", "siebenundsechzig"),
        (99, "ninety-nine", "neunundneunzig"),
        (100, "one hundred", "einhundert"),
        (101, "one hundred and one", "einhunderteins"),
        (345, "three hundred and forty-five", "dreihundertfünfundvierzig"),
        (612, "six hundred and twelve", "sechshundertzwölf"),
        (999, "nine hundred and ninety-nine", "neunhundertneunundneunzig"),
    ],
)
def test_number_words(n, english_number, german_number):
    assert number(n) == (english_number, german_number)


def test_numbers_are_all_different():
    assert len({number(n).english for n in range(1000)}) == len({number(n).german for n in range(1000)}) == 1000


@pytest.mark.parametrize(
    ("day", "english_date", "german_date"),
    [
        (1, "on the first of May", "am ersten Mai"),
        (3, "on the third of May", "am dritten Mai"),
        (7, "on the seventh of May", "am siebten Mai"),
        (8, "on the eighth of May", "am achten Mai"),
        (12, "on the twelfth of May", "am zwölften Mai"),
        (19, "on the nineteenth of May", "am neunzehnten Mai"),
        (20, "on the twentieth of May", "am zwanzigsten Mai"),
        (22, "on the twenty-second of May", "am zweiundzwanzigsten Mai"),
        (31, "on the thirty-first of May", "am einunddreißigsten Mai"),
    ],
)
def test_dates(day, english_date, german_date):
    assert date(day, MAY) == (english_date, german_date)


@pytest.mark.parametrize(
    ("determiner", "noun", "plural", "nominative", "accusative", "dative"),
    [
        ("the", "dog", False, "der alte Hund", "den alten Hund", "dem alten Hund"),
        ("the", "cat", False, "die alte Katze", "die alte Katze", "der alten Katze"),
        ("the", "horse", False, "das alte Pferd", "das alte Pferd", "dem alten Pferd"),
        ("the", "horse", True, "die alten Pferde", "die alten Pferde", "den alten Pferden"),
        ("this", "teacher", False, "dieser alte Lehrer", "diesen alten Lehrer", "diesem alten Lehrer"),
        ("a", "dog", False, "ein alter Hund", "einen alten Hund", "einem alten Hund"),
        ("our", "cat", False, "unsere alte Katze", "unsere alte Katze", "unserer alten Katze"),
        ("no", "horse", False, "kein altes Pferd", "kein altes Pferd", "keinem alten Pferd"),
        ("not any", "car", True, "keine alten Autos", "keine alten Autos", "keinen alten Autos"),
        ("", "dog", True, "alte Hunde", "alte Hunde", "alten Hunden"),
        ("a", "farmer", False, "ein alter Bauer", "einen alten Bauern", "einem alten Bauern"),
    ],
)
def test_declension(determiner, noun, plural, nominative, accusative, dative):
    assert np(determiner, noun, "old", plural=plural).german == (nominative, accusative, dative)


def test_mass_nouns_take_strong_adjectives():
    assert np("", "coffee", "cold").german == ("kalter Kaffee", "kalten Kaffee", "kaltem Kaffee")
    assert np("", "water", "cold").german == ("kaltes Wasser", "kaltes Wasser", "kaltem Wasser")
    assert np("", "milk", "cold").german == ("kalte Milch", "kalte Milch", "kalter Milch")


@pytest.mark.parametrize(
    ("verb", "ich", "du", "er", "wir"),
    [
        ("drive", "fahre", "fährst", "fährt", "fahren"),
        ("read", "lese", "liest", "liest", "lesen"),
        ("work", "arbeite", "arbeitest", "arbeitet", "arbeiten"),
        ("invite", "lade", "lädst", "lädt", "laden"),
        ("dance", "tanze", "tanzt", "tanzt", "tanzen"),
        ("admire", "bewundere", "bewunderst", "bewundert", "bewundern"),
        ("know", "weiß", "weißt", "weiß", "wissen"),
    ],
)
def test_conjugation(verb, ich, du, er, wir):
    assert [finite(VERBS[verb], phrase.person) for phrase in (ICH, DU, ER, WIR)] == [ich, du, er, wir]


def small(**options) -> ToyConfig:
    return ToyConfig(**{"train_pairs": 300, "test_pairs": 40, **options})


def digest(config: ToyConfig) -> str:
    return hashlib.sha256(repr(generate(config)).encode()).hexdigest()


@pytest.mark.parametrize(
    ("difficulty", "expected"),
    [
        (1, "250e44d20eff1f9999719226cac3006e8f268d4274c4f544ee3fb4d682888eff"),
        (2, "583d41e5fc290e986aebec24544608b5f6735731197e062c76e808f3dcaaca91"),
        (3, "71b70381635dd0f48f1004c89db36892157cebc8e947273a2a7f05ad0f0c75fc"),
    ],
)
def test_the_corpus_never_changes(difficulty, expected):
    """The digests are those of version 0.1.0: scores on the embedded corpus stay comparable."""
    assert digest(small(difficulty=difficulty)) == expected


def test_the_seed_decides_everything():
    code = f"from test_grammar import *; print(digest({small()!r}))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-c", code]
        output = subprocess.check_output(command, env=environment | {"PYTHONHASHSEED": hash_seed}, text=True)
        assert output.strip() == digest(small())
    assert digest(small(seed=1)) != digest(small())


def test_only_train_depends_on_its_size():
    few, many = generate(small()), generate(small(train_pairs=400))
    assert many["train"][:300] == few["train"]
    assert all(many[name] == few[name] for name in ("valid", "test", "test_long"))


@pytest.mark.parametrize("difficulty", [1, 2, 3])
def test_the_sets(difficulty):
    corpus = generate(small(difficulty=difficulty))
    sizes = {name: len(pairs) for name, pairs in corpus.items()}
    assert sizes == {"train": 300, "valid": 40, "test": 40, "test_long": 40}
    sources = [source for pairs in corpus.values() for source, _ in pairs]
    assert len(set(sources)) == len(sources)
    lengths = {name: [len(source.split()) for source, _ in pairs] for name, pairs in corpus.items()}
    assert max(lengths["train"] + lengths["valid"] + lengths["test"]) <= LONGEST[difficulty] < min(lengths["test_long"])
    assert max(lengths["test_long"]) <= 2 * LONGEST[difficulty]


def test_difficulty_brings_more_words_and_longer_sentences():
    corpora = [generate(small(difficulty=difficulty, train_pairs=2000))["train"] for difficulty in (1, 2, 3)]
    words = [[word for source, _ in corpus for word in source.rstrip(".?").split()] for corpus in corpora]
    assert len(words[0]) * 1.1 < len(words[1]) and len(words[1]) * 1.1 < len(words[2])
    assert len(set(words[0])) * 1.1 < len(set(words[1])) and len(set(words[1])) * 1.1 < len(set(words[2]))


@cache
def drawn(difficulty: int, count: int = 2000) -> list[tuple[str, str]]:
    grammar = Grammar(difficulty, Random(7))
    return [grammar.sentence(long=i % 10 == 0) for i in range(count)]


@pytest.mark.parametrize("difficulty", [1, 2, 3])
def test_english_determines_german(difficulty):
    pairs = drawn(difficulty, 5000)
    assert len({source for source, _ in pairs}) == len(set(pairs))


def test_english_shows_the_tense():
    draw, verbs = Draw(3, Random(7)), [verb for verb in VERBS.values() if "that" not in verb.frame]
    assert not draw.can_say(VERBS["read"], "past", WIR)  # "we read" could be either
    for verb in verbs:
        for phrase in (*PRONOUNS, WHO._replace(person=PLURAL)):
            if draw.can_say(verb, "past", phrase):
                assert english(Clause(verb, phrase)) != english(Clause(verb, phrase, tense="past"))


@pytest.mark.parametrize("difficulty", [1, 2, 3])
def test_spelling(difficulty):
    for pair in drawn(difficulty):
        assert pair[0][-1] == pair[1][-1]
        for side in pair:
            assert re.fullmatch(r"[A-ZÄÖÜ][A-Za-zÄÖÜäöüß-]*(,? [A-Za-zÄÖÜäöüß-]+)*[.?]", side), side


def finite_forms() -> set[str]:
    forms = {form for table in (PRESENT, PRETERITE) for row in table.values() for form in row}
    forms |= {form for modal in MODALS.values() for form in modal.present + modal.past}
    return (forms - {""}) | {finite(verb, person) for verb in VERBS.values() for person in range(5)}


@pytest.mark.parametrize("difficulty", [1, 2, 3])
def test_the_finite_verb_is_second_in_main_clauses_and_first_in_questions(difficulty):
    forms, checked = finite_forms(), 0
    one_word = {"Ich", "Du", "Er", "Sie", "Wir", *lexicon.NAMES, "Gestern", "Morgen", "Jetzt", "Wer", "Wen", "Wem"}
    auxiliaries = {"Do", "Does", "Did", "Is", "Are", "Was", "Were", "Will", "Can"}
    for source, target in drawn(difficulty):
        first, second = re.findall(r"\w+", target)[:2]
        if first in one_word and second not in ("Abend", "Morgen"):
            assert second in forms, target
            checked += 1
        if target.endswith("?") and source.split()[0] in auxiliaries:
            assert first.lower() in forms, target
            checked += 1
    assert checked > 500


@pytest.mark.parametrize("difficulty", [1, 2])
def test_the_finite_verb_is_last_in_subordinate_clauses(difficulty):
    forms = finite_forms()
    forms |= {verb.prefix + finite(verb, person) for verb in VERBS.values() for person in range(5)}
    clauses = [
        clause
        for _, target in drawn(difficulty)
        for clause in re.findall(r"(?:^|, )(?:[Ww]eil|[Oo]bwohl|[Ww]enn|dass|ob) ([^,.?]+)", target)
    ]
    assert len(clauses) > 300
    assert [clause for clause in clauses if clause.split()[-1] not in forms] == []


def test_subjects_of_subordinate_clauses_come_first():
    clause = past(the("boy"), "give", dative=DU, accusative=the("book"), time=YESTERDAY)
    assert german(clause, "final") == "der Junge dir gestern das Buch gegeben hat"
    assert german(clause, "first") == "hat der Junge dir gestern das Buch gegeben"
