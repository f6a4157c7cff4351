package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/pressly/goose/v3"
)

// Schema 7 to 12 kept what a commit of a mirror brought to new paths as one row of JSON, and
// entered it in the tables later. This brings such rows to where everything else is.
var enterArrivals = goose.NewGoMigration(13, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
	a := arrivals{ctx, tx}
	if err := a.exec(`CREATE TABLE arriving (uri TEXT NOT NULL PRIMARY KEY, path TEXT NOT NULL, kept TEXT NOT NULL,
		length BIGINT, sha256 BLOB, taken TEXT NOT NULL) WITHOUT ROWID`); err != nil {
		return err
	}
	for {
		some, err := a.next()
		if err != nil {
			return err
		}
		if some == nil {
			return a.exec("DROP TABLE arrival")
		}
		if err := a.enter(some); err != nil {
			return err
		}
	}
}}, nil)

type arrivals struct {
	ctx context.Context
	tx  *sql.Tx
}

// arrival is one row.
type arrival struct {
	id      int64
	settled bool // its files are there; false: they may be

	At  int64 `json:"at"` // in microseconds since 1970
	Run int64 `json:"run"`
	New []struct {
		URI      string `json:"uri"`
		Path     string `json:"path"`
		Fold     []byte `json:"fold"`
		Kept     string `json:"kept"`
		Length   int64  `json:"length"` // -1: unknown
		SHA256   []byte `json:"sha256"`
		Taken    string `json:"taken"`
		Digests  string `json:"digests"`
		Verified bool   `json:"verified"`
		Type     string `json:"type"`
		Stat     string `json:"stat"`
		Members  []struct {
			Set       SetID  `json:"set"`
			Changed   int64  `json:"changed"`
			LastMod   string `json:"lastmod"`
			Told      bool   `json:"told"`
			Until     int64  `json:"until"`
			Came      int64  `json:"came"`
			Remainder string `json:"remainder"`
		} `json:"members"`
	} `json:"new"`
}

func (a *arrivals) exec(query string, args ...any) error {
	_, err := a.tx.ExecContext(a.ctx, query, args...)
	return err
}

// next takes out the first row; nil if there is none.
func (a *arrivals) next() (*arrival, error) {
	var v arrival
	var body string
	err := a.tx.QueryRowContext(a.ctx, "DELETE FROM arrival WHERE id = (SELECT MIN(id) FROM arrival) RETURNING id, body, settled").
		Scan(&v.id, &body, &v.settled)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &v)
	}
	if err != nil {
		err = fmt.Errorf("%w: what has arrived (%d): %w; %s", ErrDamaged, v.id, err, hint)
	}
	return &v, err
}

func (a *arrivals) enter(v *arrival) error {
	for i := range v.New {
		n := &v.New[i]
		length := sql.NullInt64{Int64: n.Length, Valid: n.Length >= 0}
		if !v.settled {
			if err := a.exec("INSERT OR REPLACE INTO arriving VALUES (?, ?, ?, ?, ?, ?)", n.URI, n.Path, n.Kept, length, n.SHA256, n.Taken); err != nil {
				return err
			}
			continue
		}
		key := SumOf(n.URI)
		if err := a.exec(`INSERT INTO resource (key, uri, path, fold, stored, length, sha256, digests, verified, type, encoding, stat)
			VALUES (?, ?, ?, ?, TRUE, ?, ?, ?, ?, ?, '', ?)`, key[:], n.URI, n.Path, n.Fold, length, n.SHA256, n.Digests, n.Verified, n.Type, n.Stat); err != nil {
			return err
		}
		for _, m := range n.Members {
			state := Membership{Told: m.Told, Changed: readTime(m.Changed), Came: readMicros(m.Came)}
			var err error
			if state.LastMod, err = readDatetime(n.URI, m.LastMod); err != nil {
				return err
			}
			err = a.exec(`INSERT INTO member (set_id, key, changed, lastmod, due, wanted, since, run, born, remainder)
				VALUES (?, ?, ?, ?, '', '', ?, ?, ?, ?)`, m.Set, key[:], m.Changed, m.LastMod, v.At, v.Run, v.Run, writeText(m.Remainder))
			if err == nil && state.tells() {
				err = a.exec("INSERT OR REPLACE INTO evidence (set_id, key, told, gone, moment, until, came) VALUES (?, ?, ?, FALSE, ?, ?, ?)",
					m.Set, key[:], m.Told, m.Changed, m.Until, m.Came)
			}
			if err == nil {
				err = a.exec("UPDATE sets SET members = members + 1, bytes = MIN(bytes, ?) + ? WHERE id = ?", math.MaxInt64-max(n.Length, 0), max(n.Length, 0), m.Set)
			}
			if err == nil {
				err = a.exec("UPDATE run SET created = created + 1 WHERE id = ?", v.Run)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
