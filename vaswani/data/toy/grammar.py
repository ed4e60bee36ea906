"""The embedded English-German corpus, drawn from a small synchronous grammar.

The words are in `lexicon.py`, the two languages' word order and inflection in `syntax.py`. Here `Grammar` draws
clauses and joins them to sentences, and `generate` collects the sets of a corpus.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

from vaswani.data.toy import lexicon, syntax
from vaswani.data.toy.lexicon import ADJECTIVES, MODALS, NOUNS, VERBS, Adjective, Modal, Noun, Verb, Words
from vaswani.data.toy.syntax import ACCUSATIVE, CASES, PRONOUNS, WHO, Clause, Phrase, noun_phrase, number, prepositional
from vaswani.schema import ToyConfig

LONGEST = {1: 14, 2: 20, 3: 26}
"""English words of the longest training sentence at each difficulty."""

T = TypeVar("T")
PERSON = frozenset({"person"})


def generate(config: ToyConfig) -> dict[str, list[tuple[str, str]]]:
    """Makes the corpus, the same for the same configuration.

    Args:
        config: sizes, difficulty and seed. The sets but "train" do not depend on the number of training pairs.

    Returns:
        English and German sentences of the sets "train", "valid", "test" and "test_long", all of them different;
        every English sentence of "test_long" has more words than any of the others, up to twice as many.
    """
    grammar = Grammar(config.difficulty, Random(config.seed))
    seen: set[str] = set()

    def draw(count: int, long: bool = False) -> list[tuple[str, str]]:
        pairs = []
        while len(pairs) < count:
            pair = grammar.sentence(long)
            words = len(pair[0].split()) / LONGEST[config.difficulty]
            if pair[0] not in seen and (1 < words <= 2 if long else words <= 1):
                seen.add(pair[0])
                pairs.append(pair)
        return pairs

    tests = {"valid": draw(config.test_pairs), "test": draw(config.test_pairs)}
    tests["test_long"] = draw(config.test_pairs, long=True)
    return {"train": draw(config.train_pairs), **tests}


class Grammar:
    """Draws sentences with the words and constructions of a difficulty.

    A clause's mood is "past", "present", or what a conjunction asks of it: "condition" (if he comes tomorrow),
    "consequence" (he will help), "ability" (so that he can help), "progressive" (while he is working).
    """

    def __init__(self, difficulty: int, random: Random):
        self.difficulty, self.random = difficulty, random
        self.nouns = [noun for noun in NOUNS.values() if noun.level <= difficulty]
        self.adjectives = [adjective for adjective in ADJECTIVES.values() if adjective.level <= difficulty]
        self.modals = [modal for modal in MODALS.values() if modal.level <= difficulty]
        verbs = [verb for verb in VERBS.values() if verb.level <= difficulty]
        self.reporting = [verb for verb in verbs if "that" in verb.frame]
        self.verbs = [verb for verb in verbs if "that" not in verb.frame] + [VERBS["be"]] * 5 + [VERBS["cost"]]
        self.conjunctions = [c for c, (*_, level) in lexicon.CONJUNCTIONS.items() if level <= difficulty]

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        return self.random.choice(choices)

    # Sentences

    def sentence(self, long: bool = False) -> tuple[str, str]:
        """An English and a German sentence; a long one has more clauses."""
        if not long and self.chance(0.2):
            return syntax.finish(self.question(), "?")
        if long:
            count = self.pick((2, 3) if self.difficulty == 1 else (3, 4))
        else:
            count = 1 + self.chance(0.12 * self.difficulty)
        compound = 0.4 if count == 1 else 0.7 if long else 0.2 * (self.difficulty - 1)
        words = self.unit(compound, first=True)
        for _ in range(count - 1):
            words = syntax.coordinate(words, self.pick(("and", "but")), self.unit(compound, first=False))
        return syntax.finish(words)

    def unit(self, compound: float, first: bool) -> Words:
        """A main clause with, by the probability compound, a subordinate one; only the first may start with either."""
        mood = self.pick(("past", "present", "present"))
        if not self.chance(compound):
            clause = self.clause(mood)
            may_front = {"time": clause.time, "place": clause.place and clause.verb.aspect == "action"}
            fronts = [front for front, may in may_front.items() if may]
            return syntax.statement(clause, self.pick(fronts) if fronts and first and self.chance(0.4) else "")
        kinds = (self.with_conjunction, self.with_conjunction, self.reported, self.purposeful, self.related)
        return self.pick(kinds[: 3 if self.difficulty == 1 else 5])(mood, first)

    def with_conjunction(self, mood: str, first: bool) -> Words:
        """He works because …; because …, he works."""
        conjunction = self.pick(self.conjunctions)
        inner, outer, _ = lexicon.CONJUNCTIONS[conjunction]
        if not inner or (conjunction.english == "before" and mood == "past"):
            inner = outer = mood
        negatable = conjunction.english in ("because", "although", "if")
        words = syntax.subordinate(conjunction, self.clause(inner, rich=False, negatable=negatable))
        clause = self.clause(outer, rich=False)
        if first and inner != "ability" and self.chance(0.4):
            return syntax.after_subordinate(words, clause)
        return syntax.statement(replace(clause, tail=words))

    def reported(self, mood: str, first: bool) -> Words:
        """He says that …, asks whether …, does not know why …"""
        verb = self.pick(self.reporting)
        subject, _ = self.subject(verb)
        conjunction = Words("that", "dass")
        if "whether" in verb.frame["that"] and ("that" not in verb.frame["that"] or self.chance(0.5)):
            conjunction = self.pick([Words("whether", "ob"), Words("why", "warum")][: self.difficulty])
        clause = self.clause("past" if mood == "past" else self.pick(("past", "present")), rich=self.difficulty > 1)
        dative = self.person(subject) if "dative" in verb.frame else None
        negated = not quantified(subject) and self.chance(0.2)
        tail = syntax.subordinate(conjunction, clause)
        return syntax.statement(Clause(verb, subject, dative=dative, tense=mood, negated=negated, tail=tail))

    def purposeful(self, mood: str, first: bool) -> Words:
        """He goes to the market to buy bread."""
        main = self.clause(mood, False, self.pick([verb for verb in self.verbs if "to" in verb.frame]), negatable=False)
        verbs = [v for v in self.verbs if v.aspect == "action" and ("accusative" in v.frame or "dative" in v.frame)]
        aim = self.clause("purpose", False, self.pick(verbs), (main.subject, PERSON), negatable=False)
        main = replace(main, time=None, frequency=None, manner=None)
        return syntax.statement(replace(main, tail=syntax.purpose(replace(aim, time=None, frequency=None))))

    def related(self, mood: str, first: bool) -> Words:
        """The man who … laughs; he reads the book that …"""
        if self.chance(0.5):
            noun, plural = self.noun(PERSON), self.chance(0.25)
            who = WHO._replace(person=syntax.PLURAL) if plural else WHO
            clause = self.clause(mood, False, subject=(who, PERSON))
            phrase = noun_phrase("the", noun, *self.some_adjectives(noun), plural=plural)
            phrase = syntax.attach(phrase, syntax.relative(noun, clause, plural, "subject"))
            return syntax.statement(self.clause(mood, False, subject=(phrase, noun.classes)))
        verbs = [verb for verb in self.verbs if "accusative" in verb.frame and "person" not in verb.frame["accusative"]]
        verb, plural = self.pick(verbs), self.chance(0.25)
        noun = self.noun(verb.frame["accusative"])
        plural = plural and noun.english_plural != "-"
        main = self.clause(mood, False, verb, negatable=False)
        main = replace(main, time=None, frequency=None, manner=None, place=None, complement=None)
        other = self.pick([v for v in verbs if v is not verb and v.frame["accusative"] & noun.classes])
        clause = replace(self.clause(mood, False, other, negatable=False), accusative=None)
        tail = syntax.relative(noun, clause, plural, "accusative")
        return syntax.statement(replace(main, accusative=noun_phrase("the", noun, plural=plural), tail=tail))

    def question(self) -> Words:
        """A yes/no question, or one for the subject, an object, place, time or reason."""
        mood = self.pick(("past", "present"))
        verbs = [verb for verb in self.verbs if "person" in verb.subject]
        kind = self.pick(("yes/no",) * 6 + ("who", "what", "what", "whom", "where", "where", "when", "why"))
        if kind == "who":
            return syntax.question(self.clause(mood, False, self.pick(verbs), (WHO, PERSON)))
        if kind == "what":
            verbs = [verb for verb in verbs if "accusative" in verb.frame]
        elif kind == "whom":
            verbs = [v for v in verbs if ("dative" in v.frame or v.preposition[0]) and "accusative" not in v.frame]
        elif kind == "where":
            verbs = [verb for verb in verbs if verb.place or "to" in verb.frame or "in" in verb.frame]
        elif kind == "when":
            verbs = [verb for verb in verbs if verb.aspect != "state"]
        verb = self.pick(verbs)
        clause = self.clause(mood, False, verb, negatable=False)
        if kind == "what":
            return syntax.question(replace(clause, accusative=None), self.asked(self.noun(verb.frame["accusative"])))
        if kind == "whom" and "dative" in verb.frame:
            return syntax.question(replace(clause, dative=None), Words("who", "wem"))
        if kind == "whom":
            english, german, case = verb.preposition
            asked = Words("who", f"{german} {WHO.german[CASES[case]]}")
            return syntax.question(replace(clause, complement=Words(english, "")), asked)
        if kind == "where" and verb.place:
            return syntax.question(replace(clause, place=None), Words("where", "wo"))
        if kind == "where":
            asked = Words("where", "wohin" if "to" in verb.frame else "wo")
            return syntax.question(replace(clause, complement=None), asked)
        if kind == "when":
            return syntax.question(replace(clause, time=None, frequency=None), Words("when", "wann"))
        return syntax.question(clause, Words("why", "warum") if kind == "why" else None)

    def asked(self, noun: Noun) -> Words:
        """The question for an accusative object like this noun."""
        if "person" in noun.classes:
            return Words("who", "wen")
        if noun.english_plural == "-" or ("animal" not in noun.classes and self.chance(0.6)):
            return Words("what", "was")
        plural = self.chance(0.5)
        phrase = noun_phrase("how many" if plural else "which", noun, plural=plural)
        return Words(phrase.object, phrase.german[ACCUSATIVE])

    # Clauses

    def clause(
        self, mood: str, rich: bool = True, verb: Verb | None = None,
        subject: tuple[Phrase, frozenset[str]] | None = None, negatable: bool = True,
    ) -> Clause:  # fmt: skip
        """A clause of this mood.

        Args:
            mood: see the class.
            rich: whether it may have two adverbials, or only one.
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
        return mood != "past" or subject.person == syntax.ER or not verb.past_looks_present

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
        draw = self.random.random()
        if draw < (0.1 if mood == "condition" else 0.3):
            return "present", self.pick(modals)
        if draw < 0.5 and mood == "present" and verb.aspect == "action":
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
        said = subject.subject.split()
        adjective = self.pick([a for a in self.adjectives if a.classes & classes and a.english not in said])
        if "person" in classes and self.chance(0.15):
            age = number(self.random.randint(2, 99))
            return Words(f"{age.english} years old", f"{age.german} Jahre alt"), False
        if self.difficulty > 1 and adjective.comparative != "-" and self.chance(0.3):
            than = self.phrase(self.noun(classes & adjective.classes, other_than=subject), "definite")
            english = f"{adjective.english_comparative} than {than.object}"
            return Words(english, f"{adjective.comparative} als {than.german[syntax.NOMINATIVE]}"), False
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
        return syntax.direction(phrase, noun) if towards else syntax.location(phrase, noun)

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
        draw = self.random.random()
        if kind in ("now", "habit") or draw < 0.5:
            return self.pick(lexicon.TIMES[kind])
        if draw < 0.8:
            month, days = self.pick(lexicon.MONTHS)
            return syntax.date(self.random.randint(1, days), month)
        if draw < 0.9:
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
        draw = self.random.random() if "person" in verb.subject else 1
        if draw < 0.35:
            return self.pick(PRONOUNS), PERSON
        if draw < 0.5:
            return syntax.name(self.pick(lexicon.NAMES)), PERSON
        classes = PERSON if draw < 0.8 and verb.english != "be" else verb.subject
        noun = self.noun(classes)
        role = "subject" if noun.classes & {"person", "animal"} and verb.english != "be" else "definite"
        return self.phrase(noun, role), noun.classes

    def person(self, subject: Phrase) -> Phrase:
        """A person as an object, other than the subject."""
        draw = self.random.random()
        if draw < 0.3:
            first = (syntax.ICH, syntax.WIR)
            own = first if subject.person in first else (subject.person,)
            return self.pick([pronoun for pronoun in PRONOUNS if pronoun.person not in own])
        if draw < 0.45:
            return syntax.name(self.pick([word for word in lexicon.NAMES if word != subject.subject]))
        return self.phrase(self.noun(PERSON, other_than=subject), "definite")


def quantified(phrase: Phrase) -> bool:
    """Whether negating the verb would leave open what is denied (every man does not sing)."""
    return phrase.subject.startswith(("every ", "no "))
