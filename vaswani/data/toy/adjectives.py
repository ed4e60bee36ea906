"""The adjectives of the embedded corpus."""

from typing import NamedTuple

from vaswani.data.toy.words import noun_classes, rows


class Adjective(NamedTuple):
    english: str
    english_comparative: str
    german: str
    stem: str  # takes the endings: teuer, but ein teur-es Buch
    comparative: str
    passing: bool  # a state that time adverbials go with: tired today, but not red today
    classes: frozenset[str]
    level: int


# english  comparative  german/stem  comparative  classes ("*": a passing state; "-": not compared)
_ADJECTIVES = {
    1: """
    old       older          alt          älter         adult,animal,object,place
    young     younger        jung         jünger        adult,animal
    small     smaller        klein        kleiner       living,object,pocket,place,fruit,transport
    big       bigger         groß         größer        animal,thing,opening,picture,place,fruit,transport
    new       newer          neu          neuer         object,place,transport
    beautiful more_beautiful schön        schöner       clothing,thing,picture,place
    friendly  friendlier     freundlich   freundlicher  person
    clever    cleverer       klug         klüger        living
    strong    stronger       stark        stärker       living
    *happy    -              glücklich    -             person
    *tired    -              müde/müd     -             living
    *sick     -              krank        -             living
    red       -              rot          -             thing,clothing,vehicle,fruit
    blue      -              blau         -             thing,clothing,vehicle
    green     -              grün         -             thing,clothing,vehicle,fruit
    black     -              schwarz      -             animal,thing,clothing,vehicle
    *cold     -              kalt         -             drink
    *warm     -              warm         -             drink,clothing
    good      better         gut          besser        food,drink,reading,picture
    fresh     fresher        frisch       frischer      food
    expensive more_expensive teuer/teur   teurer        thing,clothing,vehicle,reading,pocket,device
    heavy     heavier        schwer       schwerer      thing
    interesting more_interesting interessant interessanter reading,picture
    """,
    2: """
    rich      richer         reich        reicher       person
    lazy      lazier         faul         fauler        living
    polite    politer        höflich      höflicher     person
    *hungry   -              hungrig      -             living
    *healthy  -              gesund       -             living
    yellow    -              gelb         -             thing,clothing,vehicle,fruit
    brown     -              braun        -             animal,thing,clothing
    cheap     cheaper        billig       billiger      thing,clothing,vehicle,reading,device
    modern    more_modern    modern       moderner      vehicle,device,transport,place
    long      longer         lang         länger        reading
    boring    more_boring    langweilig   langweiliger  reading
    sweet     sweeter        süß          süßer         fruit,baked
    *hot      -              heiß         -             drink,dish
    quiet     quieter        ruhig        ruhiger       place
    """,
    3: """
    brave     braver         mutig        mutiger       person
    honest    more_honest    ehrlich      ehrlicher     person
    famous    more_famous    berühmt      berühmter     person,place
    *sad      -              traurig      -             person
    *angry    -              wütend       -             person
    *nervous  -              nervös       -             person
    grey      -              grau         -             animal,clothing,thing
    dirty     dirtier        schmutzig    schmutziger   clothing,vehicle,opening
    practical more_practical praktisch    praktischer   thing,device,clothing
    short     shorter        kurz         kürzer        reading
    important more_important wichtig      wichtiger     reading
    dangerous more_dangerous gefährlich   gefährlicher  animal
    """,
}


def _adjective(level: int, columns: list[str]) -> Adjective:
    english, english_comparative, german, comparative, classes = columns
    german, _, stem = german.partition("/")
    passing, english = english.startswith("*"), english.removeprefix("*")
    return Adjective(
        english, english_comparative, german, stem or german, comparative, passing, noun_classes(classes), level
    )


ADJECTIVES = {adjective.english: adjective for adjective in (_adjective(*row) for row in rows(_ADJECTIVES))}
