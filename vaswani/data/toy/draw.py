"""Draws the clauses and phrases of the embedded corpus at random, with the words of one difficulty."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

from vaswani.data.toy import lexicon, phrases
from vaswani.data.toy.adjectives import ADJECTIVES, Adjective
from vaswani.data.toy.nouns import NOUNS, Noun
from vaswani.data.toy.phrases import CASES, PRONOUNS, Phrase, noun_phrase, number, prepositional
from vaswani.data.toy.syntax import Clause
from vaswani.data.toy.verbs import MODALS, VERBS, Modal, Verb
from vaswani.data.toy.words import Words

T = TypeVar("T")
PERSON = frozenset({"person"})


class Draw:
    """Draws clauses and phrases; the same numbers of `random` give the same words.

    A clause's mood is "past", "present", or what a conjunction asks of it: "condition" (if he comes tomorrow),
    "consequence" (he will help), "ability" (so that he can help), "progressive" (while he is working), "purpose" (to
    help).
    """

    def __init__(self, difficulty: int, random: Random):
        self.difficulty, self.random = difficulty, random
        self.nouns = [noun for noun in NOUNS.values() if noun.level <= difficulty]
        self.adjectives = [adjective for adjective in ADJECTIVES.values() if adjective.level <= difficulty]
        self.modals = [modal for modal in MODALS.values() if modal.level <= difficulty]
        verbs = [verb for verb in VERBS.values() if verb.level <= difficulty]
        self.reporting = [verb for verb in verbs if "that" in verb.frame]
        self.verbs = [verb for verb in verbs if "that" not in verb.frame] + [VERBS["be"]] * 5 + [VERBS["cost"]]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices, each as likely as any other."""
        return self.random.choice(choices)

    # Clauses

    def clause(
        self, mood: str, rich: bool = True, verb: Verb | None = None,
        subject: tuple[Phrase, frozenset[str]] | None = None, negatable: bool = True,
    ) -> Clause:  # fmt: skip
        """A clause of this mood.

        Args:
            mood: see `Draw`.
            rich: whether it may have two adverbials instead of one.
            verb: its verb, by default any.
            subject: its subject with the noun's classes, by default one that the verb allows.
            negatable: whether it may be negated.
        """
        verbs = [verb] if verb else self.verbs
        while True:
            verb = self.pick(verbs)
            phrase, classes = subject or self.subject(verb)
            if verb.subject & classes and self.can_say(verb, mood, phrase):
                break
        negated = negatable and not quantified(phrase) and mood not in ("ability", "progressive") and self.chance(0.15)
        complement, passing = self.complement(verb, phrase, classes)
        state = verb.aspect == "state" and not passing
        tense, modal = self.tense(mood, verb, state)
        if modal and not modal.present[0]:
            negated = False
        dative = self.person(phrase) if "dative" in verb.frame else None
        accusative = None
        if "accusative" in verb.frame:
            noun = self.noun(verb.frame["accusative"], other_than=phrase)
            person = "person" in noun.classes
            accusative = self.person(phrase) if person else self.phrase(noun, "negated" if negated else "object")
        clause = Clause(
            verb, phrase, None, dative, accusative, complement=complement, tense=tense, modal=modal, negated=negated
        )
        return clause if state else self.with_adverbials(clause, mood, rich)

    def can_say(self, verb: Verb, mood: str, subject: Phrase) -> bool:
        """Whether the verb goes with the mood, and the subject shows its tense: "they read" may be either."""
        if mood in ("progressive", "ability"):
            return verb.aspect == "action"
        if mood == "consequence":
            return verb.aspect != "state" or verb.english == "be"
        return mood != "past" or subject.person == phrases.ER or not verb.past_looks_present

    def tense(self, mood: str, verb: Verb, state: bool) -> tuple[str, Modal | None]:
        """Tense and modal verb. A state ("costs") has no modal verb and no progressive."""
        if state or mood == "purpose":
            return "past" if mood == "past" else "present", None
        if mood == "past":
            modals = [modal for modal in self.modals if modal.past[0]]
            return "past", self.pick(modals) if self.chance(0.15) and verb.english != "be" else None
        will = MODALS["will"]
        modals = [modal for modal in self.modals if modal is not will]
        if verb.english == "be":
            return "present", will if mood == "consequence" or (mood == "present" and self.chance(0.2)) else None
        if mood == "ability":
            return "present", MODALS["can"]
        if mood == "progressive":
            return "progressive", None
        uniform = self.random.random()
        if uniform < (0.1 if mood == "condition" else 0.3):
            return "present", self.pick(modals)
        if uniform < 0.5 and mood == "present" and verb.aspect == "action":
            return "progressive", None
        return "present", will if mood == "consequence" or (mood == "present" and self.chance(0.4)) else None

    def with_adverbials(self, clause: Clause, mood: str, rich: bool) -> Clause:
        """Adds at most one, if rich two, of time, frequency, manner and place."""
        verb, accusative = clause.verb, clause.accusative
        probabilities = {"time": 0.4, "frequency": 0.2, "manner": 0.3, "place": 0.4}
        chosen = [slot for slot, p in probabilities.items() if self.chance(p if rich else p / 3)]
        self.random.shuffle(chosen)
        chosen = chosen[: 2 if rich else 1]
        frequent = clause.tense in ("past", "present") and not (clause.modal or clause.negated)
        if "frequency" in chosen and frequent and mood in ("past", "present"):
            return replace(clause, frequency=self.pick(lexicon.FREQUENCIES))  # alone: others would want another order
        # "Not every day" denies the time, so the habitual present has none if it is negated.
        if "time" in chosen and not (clause.negated and clause.tense == "present" and not clause.modal):
            clause = replace(clause, time=self.time(clause, mood))
        if "manner" in chosen and verb.manner and not (accusative and accusative.negative):
            clause = replace(clause, manner=self.manner(self.pick(verb.manner), clause.subject))
        if "place" in chosen and verb.place:
            clause = replace(clause, place=self.place(verb.place, towards=False))
        return clause

    def complement(self, verb: Verb, subject: Phrase, classes: frozenset[str]) -> tuple[Words | None, bool]:
        """What else the verb governs, and whether it is an adjective for a passing state."""
        frame = verb.frame
        if "to" in frame:
            return self.place(frame["to"], towards=True), False
        if "in" in frame:
            return self.place(frame["in"], towards=False), False
        if "euros" in frame:
            n = self.number()
            return Words(f"{n.english} euros", f"{n.german} Euro"), False
        if "prepositional" in frame:
            english, german, case = verb.preposition
            noun = self.noun(frame["prepositional"], other_than=subject)
            phrase = self.person(subject) if "person" in noun.classes else self.phrase(noun, "definite")
            return prepositional(english, german, CASES[case], phrase), False
        if "adjective" in frame:
            return self.predicate(subject, classes)
        return None, False

    def predicate(self, subject: Phrase, classes: frozenset[str]) -> tuple[Words, bool]:
        """Tired; older than his brother; forty-five years old."""
        subject_words = subject.subject.split()
        adjective = self.pick([a for a in self.adjectives if a.classes & classes and a.english not in subject_words])
        if "person" in classes and self.chance(0.15):
            age = number(self.random.randint(2, 99))
            return Words(f"{age.english} years old", f"{age.german} Jahre alt"), False
        if self.difficulty > 1 and adjective.comparative != "-" and self.chance(0.3):
            than = self.phrase(self.noun(classes & adjective.classes, other_than=subject), "definite")
            english = f"{adjective.english_comparative} than {than.object}"
            return Words(english, f"{adjective.comparative} als {than.german[phrases.NOMINATIVE]}"), False
        return Words(adjective.english, adjective.german), adjective.passing

    def manner(self, kind: str, subject: Phrase) -> Words:
        """Quickly; with his friend; for the child."""
        if kind == "with":
            return prepositional("with", "mit", CASES["dative"], self.person(subject))
        if kind == "for":
            return prepositional("for", "für", CASES["accusative"], self.person(subject))
        return self.pick(lexicon.MANNERS[kind])

    def place(self, classes: frozenset[str], towards: bool) -> Words:
        """In the garden, in Berlin, at home, in room three hundred; towards: to the garden, to Berlin, home."""
        if "city" in classes and self.chance(0.4 if len(classes) > 1 else 1):
            city = self.pick(lexicon.CITIES)
            return Words(f"{'to' if towards else 'in'} {city.english}", f"{'nach' if towards else 'in'} {city.german}")
        if "home" in classes and self.chance(0.2):
            return Words("home", "nach Hause") if towards else Words("at home", "zu Hause")
        if "number" in classes and self.chance(0.2):
            room = self.number()
            return Words(f"in room {room.english}", f"in Zimmer {room.german}")
        noun = self.pick([noun for noun in self.nouns if "place" in noun.classes and noun.classes & classes])
        phrase = noun_phrase("the", noun, *self.some_adjectives(noun))
        return phrases.direction(phrase, noun) if towards else phrases.location(phrase, noun)

    def time(self, clause: Clause, mood: str) -> Words:
        """Yesterday; on the third of May; in five days."""
        if clause.tense == "past":
            kind = "past"
        elif clause.tense == "progressive":
            kind = "now"
        elif (clause.modal and clause.modal.present[0]) or mood != "present":
            kind = "future"
        else:
            kind = "now" if clause.verb.english == "be" else "habit"
        uniform = self.random.random()
        if kind in ("now", "habit") or uniform < 0.5:
            return self.pick(lexicon.TIMES[kind])
        if uniform < 0.8:
            month, days = self.pick(lexicon.MONTHS)
            return phrases.date(self.random.randint(1, days), month)
        if uniform < 0.9:
            day = self.pick(lexicon.WEEKDAYS)
            return Words(f"on {day.english}", f"am {day.german}")
        n, period = self.number(), self.pick(lexicon.PERIODS)
        if kind == "past":
            return Words(f"{n.english} {period.english} ago", f"vor {n.german} {period.german}")
        return Words(f"in {n.english} {period.english}", f"in {n.german} {period.german}")

    # Phrases

    def number(self) -> Words:
        """Mostly a small number; never one that ends in one, which would be declined."""
        n = self.random.randint(2, self.pick((12, 12, 99, 999)))
        return number(n if n % 100 != 1 else n + 1)

    def noun(self, classes: frozenset[str], other_than: Phrase | None = None) -> Noun:
        """A noun of one of the classes, which other_than does not have."""
        taken = other_than.subject.split() if other_than else []
        nouns = [noun for noun in self.nouns if noun.classes & classes]
        free = [noun for noun in nouns if noun.english not in taken and noun.english_plural not in taken]
        return self.pick(free or nouns)

    def some_adjectives(self, noun: Noun) -> tuple[Adjective, ...]:
        """None or one that goes with the noun, sometimes two."""
        adjectives = [adjective for adjective in self.adjectives if adjective.classes & noun.classes]
        if not adjectives or self.chance(0.7):
            return ()
        adjective = self.pick(adjectives)
        before = [a for a in adjectives if a.english in ("old", "new", "small", "big")]
        colour = adjective.comparative == "-" and not adjective.passing
        if colour and before and self.chance(0.2 * (self.difficulty - 1)):
            return self.pick(before), adjective
        return (adjective,)

    def phrase(self, noun: Noun, role: str) -> Phrase:
        """A noun phrase as subject, as object of a negated verb, as other object, or a definite one anywhere."""
        mass = noun.english_plural == "-"
        weights = {"the": 8.0, "possessive": 0.0 if "stranger" in noun.classes else 2.0, "this": 1.0}
        if role == "subject":
            weights |= {"a": 1.5, "every": 0.5, "no": 0.5, "count": 1, "bare": 0.5}
        elif role == "object":
            weights |= {"bare": 8} if mass else {"a": 4, "count": 2.5, "bare": 1.5}
        elif role == "negated":
            weights |= {"not": 6}
        determiner = self.random.choices(list(weights), list(weights.values()))[0]
        may_be_plural = not mass and determiner in ("the", "possessive", "this", "not")
        plural = (determiner == "bare" and not mass) or (may_be_plural and self.chance(0.25))
        adjectives = self.some_adjectives(noun)
        if determiner == "count":
            largest = 12 if noun.classes & {"person", "animal"} else self.pick((12, 12, 99, 999))
            n = self.random.randint(2, largest)
            return noun_phrase("", noun, *adjectives, count=n if n % 100 != 1 else n + 1)
        if determiner == "possessive":
            determiner = self.pick(lexicon.POSSESSIVES)
        elif determiner == "not":
            determiner = "not any" if mass or plural else "not a"
        elif determiner == "bare":
            determiner = ""
        elif determiner == "this" and plural:
            determiner = "these"
        return noun_phrase(determiner, noun, *adjectives, plural=plural)

    def subject(self, verb: Verb) -> tuple[Phrase, frozenset[str]]:
        """A subject for the verb, with its classes."""
        uniform = self.random.random() if "person" in verb.subject else 1
        if uniform < 0.35:
            return self.pick(PRONOUNS), PERSON
        if uniform < 0.5:
            return phrases.name(self.pick(lexicon.NAMES)), PERSON
        classes = PERSON if uniform < 0.8 and verb.english != "be" else verb.subject
        noun = self.noun(classes)
        role = "subject" if noun.classes & {"person", "animal"} and verb.english != "be" else "definite"
        return self.phrase(noun, role), noun.classes

    def person(self, subject: Phrase) -> Phrase:
        """A person as an object, other than the subject."""
        uniform = self.random.random()
        if uniform < 0.3:
            first = (phrases.ICH, phrases.WIR)
            own = first if subject.person in first else (subject.person,)
            return self.pick([pronoun for pronoun in PRONOUNS if pronoun.person not in own])
        if uniform < 0.45:
            return phrases.name(self.pick([word for word in lexicon.NAMES if word != subject.subject]))
        return self.phrase(self.noun(PERSON, other_than=subject), "definite")


def quantified(phrase: Phrase) -> bool:
    """Whether negating the verb would leave open what is denied (every man does not sing)."""
    return phrase.subject.startswith(("every ", "no "))
