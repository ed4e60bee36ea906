"""A clause of the embedded corpus, and how English and German say it.

A `Clause` says what both languages say. `english` and `german` put it into words, each with its own order: German has
its finite verb second, first in questions and last in subordinate clauses, and splits its verbs around the middle of
the clause. The functions under "Sentences" make sentences of clauses.
"""

import re
from dataclasses import dataclass, replace

from vaswani.data.toy.nouns import Noun
from vaswani.data.toy.phrases import (
    ACCUSATIVE,
    DATIVE,
    DEFINITE,
    DU,
    ER,
    GENDERS,
    ICH,
    NOMINATIVE,
    PLURAL,
    WHO,
    WIR,
    Phrase,
    join,
)  # fmt: skip
from vaswani.data.toy.verbs import DOUBLED_CONSONANT, PRESENT, PRETERITE, Modal, Verb
from vaswani.data.toy.words import Words


@dataclass(frozen=True)
class Clause:
    """What one clause says, the same for both languages; the fields are in the German order."""

    verb: Verb
    subject: Phrase
    time: Words | None = None
    dative: Phrase | None = None
    accusative: Phrase | None = None
    frequency: Words | None = None
    manner: Words | None = None
    place: Words | None = None
    complement: Words | None = None
    """Direction, prepositional object, predicate adjective, price."""
    tail: Words | None = None
    """Subordinate clause."""
    tense: str = "present"
    """present, progressive (a present in German) or past (the German perfect, or preterite)."""
    modal: Modal | None = None
    negated: bool = False


# English


def inflect(verb: str, past: str, form: str) -> str:
    """The form (s, ing, past or base) of an English verb, whose first word changes and whose particle does not."""
    word, rest = re.split("(?=[ |])", verb + " ", maxsplit=1)
    if form == "past":
        word = past
    elif form == "s":
        if word == "have":
            word = "has"
        elif word.endswith(("s", "sh", "ch", "x", "o")):
            word += "es"
        elif word.endswith("y") and word[-2] not in "aeiou":
            word = word[:-1] + "ies"
        else:
            word += "s"
    elif form == "ing":
        word += word[-1] if word in DOUBLED_CONSONANT else ""
        word = (word[:-1] if word.endswith("e") else word) + "ing"
    return (word + rest).rstrip()


def english_verb(clause: Clause, do: bool) -> tuple[str, str]:
    """The English auxiliary, "do" if there is no other and one is asked for, and the rest of the verb."""
    past, person = clause.tense == "past", clause.subject.person
    be = (["was", "were", "was", "were", "were"] if past else ["am", "are", "is", "are", "are"])[person]
    verb, verb_past = clause.verb.english, clause.verb.english_past
    modal = clause.modal
    if modal:
        if modal.kind == "aux":
            return modal.english, verb
        if modal.kind == "be":
            return be, f"{modal.english} {verb}"
        head, to = modal.english.split()
        verb, verb_past = f"{head} {to} {verb}", modal.english_past.split()[0] if modal.english_past else ""
    elif verb == "be":
        return be, ""
    elif clause.tense == "progressive":
        return be, inflect(verb, verb_past, "ing")
    if do:
        return "did" if past else "does" if person == ER else "do", verb
    return "", inflect(verb, verb_past, "past" if past else "s" if person == ER else "base")


def english(clause: Clause, inverted: bool = False) -> str:
    """The clause in English; inverted, as a question after its question word."""
    auxiliary, verb = english_verb(clause, do=inverted or clause.negated)
    return _english(clause, auxiliary, verb, inverted)


def _english(clause: Clause, auxiliary: str, verb: str, inverted: bool = False) -> str:
    subject = clause.subject.subject
    verb, _, particle = verb.partition("|")
    objects = [phrase.object for phrase in (clause.dative, clause.accusative) if phrase]
    light = clause.accusative is not None and clause.accusative.light
    rest = (clause.complement, clause.manner, clause.place, clause.time, clause.tail)
    return join((
        *((auxiliary, subject) if inverted else (subject, auxiliary)), "not" if clause.negated else "",
        clause.frequency.english if clause.frequency else "", verb,
        *((*objects, particle) if light else (particle, *objects)), *(words.english for words in rest if words),
    )).replace("can not", "cannot")  # fmt: skip


# German


def finite(verb: Verb, person: int) -> str:
    """The present of a German verb, without its prefix."""
    person = min(person, WIR)
    if verb.infinitive in PRESENT:
        return PRESENT[verb.infinitive][person]
    if person == ICH:
        return verb.infinitive.removesuffix("n").removesuffix("e") + "e"
    if person == DU:
        stem = verb.third_person.removesuffix("t")
        return stem + ("t" if stem[-1] in "sßzx" else "st")
    return verb.third_person if person == ER else verb.infinitive


def german_verb(clause: Clause) -> tuple[str, str, str]:
    """Prefix, finite verb, and the participle or infinitive at the clause's end."""
    verb, modal, person = clause.verb, clause.modal, min(clause.subject.person, WIR)
    past = clause.tense == "past"
    if modal and modal.present[0]:
        return "", (modal.past if past else modal.present)[person], verb.prefix + verb.infinitive
    if not past:
        return verb.prefix, finite(verb, person), ""
    if verb.infinitive in PRETERITE:
        return verb.prefix, PRETERITE[verb.infinitive][person], ""
    return "", PRESENT[verb.auxiliary][person], verb.participle


def middle(clause: Clause) -> list[str]:
    """The German clause between its verbs, without the subject.

    Pronouns and names, time, definite objects, negation, manner, place, indefinite object, complement.
    """
    objects = [(clause.accusative, ACCUSATIVE), (clause.dative, DATIVE)]
    light = [phrase.german[case] for phrase, case in objects if phrase and phrase.light]
    dative, accusative = clause.dative, clause.accusative
    nouns = [dative.german[DATIVE]] if dative and not dative.light else []
    late = []
    if accusative and not accusative.light:
        (late if accusative.indefinite else nouns).append(accusative.german[ACCUSATIVE])
    nicht = clause.negated and not (accusative and accusative.negative)
    gern = clause.modal is not None and not clause.modal.present[0]
    return [
        *light, *_german(clause.time), *nouns, "nicht" if nicht else "", "gern" if gern else "",
        *_german(clause.frequency, clause.manner, clause.place), *late, *_german(clause.complement),
    ]  # fmt: skip


def _german(*parts: Words | None) -> list[str]:
    return [words.german for words in parts if words]


def german(clause: Clause, verb: str = "second", front: str | None = None) -> str:
    """The clause in German.

    Args:
        clause: what it says.
        verb: where its finite verb stands: second, first or final.
        front: what begins the clause instead of the subject; in a final-verb clause, a relative pronoun before it.
    """
    prefix, finite_verb, end = german_verb(clause)
    subject = clause.subject.german[NOMINATIVE]
    tail = _german(clause.tail)
    if verb == "final":
        return join((front or "", subject, *middle(clause), end, prefix + finite_verb, *tail))
    if verb == "second" and front is None:
        return join((subject, finite_verb, *middle(clause), end, prefix, *tail))
    return join((front or "", finite_verb, subject, *middle(clause), end, prefix, *tail))


# Sentences


def subordinate(conjunction: Words, clause: Clause) -> Words:
    """That he is working, dass er arbeitet; commas go around the German one."""
    return Words(f"{conjunction.english} {english(clause)}", f", {conjunction.german} {german(clause, 'final')} ,")


def purpose(clause: Clause) -> Words:
    """To open the door, um die Tür aufzumachen; the subject is that of the main clause."""
    verb = clause.verb
    infinitive = f"{verb.prefix}zu{verb.infinitive}" if verb.prefix else f"zu {verb.infinitive}"
    nobody = replace(clause, subject=Phrase("", "", ("", "", "")))
    return Words(_english(nobody, "to", verb.english), f", {join(('um', *middle(clause), infinitive))} ,")


def relative(noun: Noun, clause: Clause, plural: bool, role: str) -> Words:
    """A relative clause whose role (subject or accusative) is the noun's; the clause's own is not used.

    >>> from vaswani.data.toy.nouns import NOUNS
    >>> from vaswani.data.toy.verbs import VERBS
    >>> relative(NOUNS["man"], Clause(VERBS["laugh"], WHO), plural=False, role="subject")
    Words(english='who laughs', german=', der lacht ,')
    """
    case = NOMINATIVE if role == "subject" else ACCUSATIVE
    pronoun = "d" + DEFINITE[case][3 if plural else GENDERS.index(noun.gender[0])]
    if role == "subject":
        who = Phrase("who" if "person" in noun.classes else "that", "", (pronoun, "", ""), PLURAL if plural else ER)
        clause = replace(clause, subject=who)
        return Words(english(clause), f", {german(clause, 'final')} ,")
    return Words(f"that {english(clause)}", f", {german(clause, 'final', pronoun)} ,")


def attach(phrase: Phrase, words: Words) -> Phrase:
    """The phrase with a relative clause behind it, as a subject."""
    nominative, accusative, dative = phrase.german
    return phrase._replace(
        subject=f"{phrase.subject} {words.english}", german=(f"{nominative} {words.german}", accusative, dative)
    )


def statement(clause: Clause, front: str = "") -> Words:
    """A main clause, in which front, the name of an adverbial of it ("time", "place"), comes first."""
    if not front:
        return Words(english(clause), german(clause))
    words: Words = getattr(clause, front)
    rest = replace(clause, **{front: None})
    return Words(f"{words.english} {english(rest)}", german(rest, front=words.german))


def coordinate(first: Words, conjunction: str, second: Words) -> Words:
    """Two main clauses joined by "and" or "but"; German has a comma only before "aber"."""
    german = {"and": "und", "but": ", aber"}[conjunction]
    return Words(f"{first.english} , {conjunction} {second.english}", f"{first.german} {german} {second.german}")


def after_subordinate(words: Words, clause: Clause) -> Words:
    """A main clause with a subordinate clause in front: Wenn er lacht, lacht sie."""
    return Words(f"{words.english} , {english(clause)}", german(clause, front=words.german))


def question(clause: Clause, asked: Words | None = None) -> Words:
    """A question, by default one to be answered by yes or no; the clause lacks what is asked for."""
    if clause.subject is WHO:
        return Words(english(clause), german(clause))
    if asked is None:
        return Words(english(clause, inverted=True), german(clause, "first"))
    return Words(f"{asked.english} {english(clause, inverted=True)}", german(clause, front=asked.german))


def finish(words: Words, mark: str = ".") -> tuple[str, str]:
    """The sentence as it is written: a capital, spaces and commas where they belong, and the mark."""
    sides = [re.sub("( ,)+", ",", side).strip(", ") + mark for side in words]
    return sides[0][0].upper() + sides[0][1:], sides[1][0].upper() + sides[1][1:]
