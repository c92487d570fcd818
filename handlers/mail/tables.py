"""What digests and invoices are read and written by."""

# --- digests ----------------------------------------------------------------------------------------------

PERSON = "SELECT name, email FROM app_people WHERE id = :id"
MARK = "SELECT until_at, number FROM app_digests WHERE person_id = :person_id"
MARK_COLUMNS = ("person_id", "until_at", "number")
# By the number that was found: of two runs for the same person one moves the mark.
MOVE_MARK = (
    "UPDATE app_digests SET until_at = :until_at, number = number + 1"
    " WHERE person_id = :person_id AND number = :number"
)
_BY_OTHERS = (
    "p.state = 'published' AND p.published_at <= :until_at AND (p.author_id IS NULL OR p.author_id <> m.person_id)"
)
_NEWS = (
    "FROM app_members m JOIN app_posts p ON p.board_id = m.board_id WHERE m.person_id = :person_id"
    f" AND p.published_at > :since_at AND p.published_at > m.joined_at AND {_BY_OTHERS}"
)
COUNT_NEWS = f"SELECT COUNT(*) {_NEWS}"
NEWS = (
    "SELECT b.title, COALESCE(a.name, CASE WHEN n.author_id IS NULL THEN 'The co-facilitator' ELSE 'Somebody' END),"
    " n.body FROM (SELECT p.id, p.board_id, p.author_id, p.published_at, p.body"
    f" {_NEWS} ORDER BY p.published_at DESC, p.id DESC LIMIT :most) n"
    " JOIN app_boards b ON b.id = n.board_id LEFT JOIN app_people a ON a.id = n.author_id"
    " ORDER BY b.title, n.board_id, n.published_at, n.id"
)
# A page of people in the order of their ids: it moves on over quiet ones, too. All of them have a mark from then on.
PEOPLE = "SELECT id FROM app_people WHERE id > :after ORDER BY id LIMIT :most"
MARK_ALL = (
    "INSERT INTO app_digests (person_id, until_at, number) SELECT o.id, :until_at, 0 FROM app_people o"
    " WHERE o.id > :after AND o.id <= :last AND NOT EXISTS (SELECT 1 FROM app_digests d WHERE d.person_id = o.id)"
)
# The newest post of each board is asked for, and not whether there is one behind the mark: MySQL would look through
# all posts of the board for somebody who has seen them all.
WITH_NEWS = (
    "SELECT d.person_id FROM app_digests d WHERE d.person_id > :after AND d.person_id <= :last AND EXISTS ("
    "SELECT 1 FROM app_members m WHERE m.person_id = d.person_id AND ("
    f"SELECT p.published_at FROM app_posts p WHERE p.board_id = m.board_id AND {_BY_OTHERS}"
    " ORDER BY p.published_at DESC LIMIT 1) > CASE WHEN m.joined_at > d.until_at THEN m.joined_at ELSE d.until_at END"
    ") ORDER BY d.person_id"
)

# --- invoices ---------------------------------------------------------------------------------------------

INVOICE = "SELECT year, number, content FROM app_invoices WHERE reference = :reference"
YEAR_COLUMNS = ("year", "last_number")
NEXT_NUMBER = "UPDATE app_invoice_years SET last_number = last_number + 1 WHERE year = :year"
LAST_NUMBER = "SELECT last_number FROM app_invoice_years WHERE year = :year"
INVOICE_COLUMNS = ("reference", "year", "number", "currency", "net", "vat", "total", "content", "issued_at")
