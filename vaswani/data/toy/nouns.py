"""The nouns of the embedded corpus."""

from typing import NamedTuple

from vaswani.data.toy.words import noun_classes, rows


class Noun(NamedTuple):
    english: str
    english_plural: str  # "-" for a mass noun, which has no plural
    german: str
    gender: str  # m, f, n; "m*" is a weak masculine, whose accusative and dative singular look like the plural
    german_plural: str
    classes: frozenset[str]
    level: int


# english  plural  german  gender  plural  classes
_NOUNS = {
    1: """
    man      men       Mann     m  Männer     person,adult,stranger
    woman    women     Frau     f  Frauen     person,adult,stranger
    child    children  Kind     n  Kinder     person
    boy      boys      Junge    m* Jungen     person,stranger
    girl     girls     Mädchen  n  Mädchen    person,stranger
    teacher  teachers  Lehrer   m  Lehrer     person,adult
    doctor   doctors   Arzt     m  Ärzte      person,adult
    friend   friends   Freund   m  Freunde    person,adult
    brother  brothers  Bruder   m  Brüder     person,adult
    sister   sisters   Schwester f Schwestern person,adult
    dog      dogs      Hund     m  Hunde      animal
    cat      cats      Katze    f  Katzen     animal
    horse    horses    Pferd    n  Pferde     animal
    book     books     Buch     n  Bücher     reading,writing
    letter   letters   Brief    m  Briefe     reading,writing,document
    newspaper newspapers Zeitung f Zeitungen  reading
    apple    apples    Apfel    m  Äpfel      food,fruit
    egg      eggs      Ei       n  Eier       food
    cake     cakes     Kuchen   m  Kuchen     food,baked
    bread    -         Brot     n  -          food,baked
    cheese   -         Käse     m  -          food
    water    -         Wasser   n  -          drink
    milk     -         Milch    f  -          drink
    coffee   -         Kaffee   m  -          drink
    door     doors     Tür      f  Türen      opening,pane
    window   windows   Fenster  n  Fenster    opening,pane
    car      cars      Auto     n  Autos      vehicle
    bicycle  bicycles  Fahrrad  n  Fahrräder  vehicle
    bus      buses     Bus      m  Busse      transport
    train    trains    Zug      m  Züge       transport
    lamp     lamps     Lampe    f  Lampen     thing
    chair    chairs    Stuhl    m  Stühle     thing
    table    tables    Tisch    m  Tische     thing
    bag      bags      Tasche   f  Taschen    thing
    key      keys      Schlüssel m Schlüssel  pocket
    ball     balls     Ball     m  Bälle      thing
    picture  pictures  Bild     n  Bilder     picture
    coat     coats     Mantel   m  Mäntel     clothing
    hat      hats      Hut      m  Hüte       clothing
    shirt    shirts    Hemd     n  Hemden     clothing
    garden   gardens   Garten   m  Gärten     place,home,out
    kitchen  kitchens  Küche    f  Küchen     place,home
    house    houses    Haus     n  Häuser     place,home,dwelling
    school   schools   Schule   f  Schulen    place,work,town
    office   offices   Büro     n  Büros      place,work
    park     parks     Park     m  Parks      place,out,town
    city     cities    Stadt    f  Städte     place,shop,town,dwelling
    village  villages  Dorf     n  Dörfer     place,town,dwelling
    station  stations  Bahnhof  m  Bahnhöfe   place,town,stop
    market   markets   Markt    m  Märkte     place,shop,town
    hotel    hotels    Hotel    n  Hotels     place,dwelling,work,town
    """,
    2: """
    mother   mothers   Mutter   f  Mütter     person,adult
    father   fathers   Vater    m  Väter      person,adult
    student  students  Student  m* Studenten  person,adult
    neighbour neighbours Nachbar m* Nachbarn  person,adult
    farmer   farmers   Bauer    m* Bauern     person,adult
    aunt     aunts     Tante    f  Tanten     person,adult
    uncle    uncles    Onkel    m  Onkel      person,adult
    bird     birds     Vogel    m  Vögel      animal
    cow      cows      Kuh      f  Kühe       animal
    mouse    mice      Maus     f  Mäuse      animal
    story    stories   Geschichte f Geschichten reading,writing
    poem     poems     Gedicht  n  Gedichte   reading,writing
    pear     pears     Birne    f  Birnen     food,fruit
    soup     soups     Suppe    f  Suppen     food,dish
    meat     -         Fleisch  n  -          food,dish
    rice     -         Reis     m  -          food,dish
    tea      -         Tee      m  -          drink
    juice    -         Saft     m  -          drink
    suitcase suitcases Koffer   m  Koffer     thing,opening
    flower   flowers   Blume    f  Blumen     thing
    knife    knives    Messer   n  Messer     thing
    umbrella umbrellas Regenschirm m Regenschirme thing
    radio    radios    Radio    n  Radios     device
    computer computers Computer m  Computer   device
    shoe     shoes     Schuh    m  Schuhe     clothing
    jacket   jackets   Jacke    f  Jacken     clothing
    dress    dresses   Kleid    n  Kleider    clothing
    library  libraries Bibliothek f Bibliotheken place,work,town
    hospital hospitals Krankenhaus n Krankenhäuser place,work,town
    restaurant restaurants Restaurant n Restaurants place,work,town
    forest   forests   Wald     m  Wälder     place,out
    beach    beaches   Strand   m  Strände    place,out,town
    """,
    3: """
    baker    bakers    Bäcker   m  Bäcker     person,adult
    policeman policemen Polizist m* Polizisten person,adult,stranger
    guest    guests    Gast     m  Gäste      person,adult
    colleague colleagues Kollege m* Kollegen  person,adult
    grandmother grandmothers Großmutter f Großmütter person,adult
    daughter daughters Tochter  f  Töchter    person,adult
    son      sons      Sohn     m  Söhne      person,adult
    judge    judges    Richter  m  Richter    person,adult
    rabbit   rabbits   Kaninchen n Kaninchen  animal
    bear     bears     Bär      m* Bären      animal
    report   reports   Bericht  m  Berichte   reading,writing,document
    contract contracts Vertrag  m  Verträge   reading,writing,document
    tomato   tomatoes  Tomate   f  Tomaten    food,fruit
    potato   potatoes  Kartoffel f Kartoffeln food
    sausage  sausages  Wurst    f  Würste     food
    wine     -         Wein     m  -          drink
    bottle   bottles   Flasche  f  Flaschen   thing,opening
    mirror   mirrors   Spiegel  m  Spiegel    thing
    blanket  blankets  Decke    f  Decken     thing
    ring     rings     Ring     m  Ringe      pocket
    camera   cameras   Kamera   f  Kameras    device
    television televisions Fernseher m Fernseher device
    glove    gloves    Handschuh m Handschuhe clothing
    scarf    scarves   Schal    m  Schals     clothing
    theatre  theatres  Theater  n  Theater    place,work,town
    airport  airports  Flughafen m Flughäfen  place,work,town,stop
    lake     lakes     See      m  Seen       place,out,town
    factory  factories Fabrik   f  Fabriken   place,work,town
    castle   castles   Schloss  n  Schlösser  place,dwelling,town
    bridge   bridges   Brücke   f  Brücken    place,out
    """,
}

# place -> "at" in english and german, "to" in german; zu, an (at), auf (at) and in (at) take the dative,
# an, auf and in (to) the accusative
PLACES = {
    "garden": ("in", "in", "in"), "kitchen": ("in", "in", "in"), "house": ("in", "in", "in"),
    "office": ("in", "in", "in"), "park": ("in", "in", "in"), "city": ("in", "in", "in"),
    "village": ("in", "in", "in"), "hotel": ("in", "in", "in"), "library": ("in", "in", "in"),
    "hospital": ("in", "in", "in"), "restaurant": ("in", "in", "in"), "forest": ("in", "in", "in"),
    "theatre": ("in", "in", "in"), "factory": ("in", "in", "in"), "castle": ("in", "in", "zu"),
    "school": ("at", "in", "in"), "station": ("at", "an", "zu"), "market": ("at", "auf", "auf"),
    "beach": ("on", "an", "an"), "airport": ("at", "an", "zu"), "lake": ("at", "an", "an"),
    "bridge": ("on", "auf", "zu"),
}  # fmt: skip


def _noun(level: int, columns: list[str]) -> Noun:
    english, english_plural, german, gender, german_plural, classes = columns
    return Noun(english, english_plural, german, gender, german_plural, noun_classes(classes), level)


NOUNS = {noun.english: noun for noun in (_noun(*row) for row in rows(_NOUNS))}
