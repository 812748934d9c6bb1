// SQLite's bundled extensions, left out: packs and caches have no full-text search and no R-trees, whose code is a
// tenth of the runtime, and which a hostile file could reach. SQLite calls these when a connection opens; as they are
// defined here, the linker leaves the extensions in libsqlite3.a.
struct sqlite3;

extern "C" {
int sqlite3Fts3Init(sqlite3*) { return 0; }
int sqlite3Fts5Init(sqlite3*) { return 0; }
int sqlite3RtreeInit(sqlite3*) { return 0; }
}
