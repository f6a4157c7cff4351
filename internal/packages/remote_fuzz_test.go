package packages

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"instep/fetch"
	"instep/harvest"
	"instep/pack"
)

// unsound serves a file by parts. A seed other than 0 lets some answers break off, refuse,
// or have other bytes than were asked for.
type unsound struct {
	content []byte
	luck    *rand.Rand // nil: no faults
}

func (s *unsound) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"1"`)
	fault := 100
	if s.luck != nil {
		fault = s.luck.IntN(12)
	}
	switch fault {
	case 0:
		w = &cutting{w, s.luck.IntN(100 << 10)}
	case 1:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case 2:
		r.Header.Del("Range")
	case 3:
		total := []int64{0, 1, int64(len(s.content)) + 1, 1 << 40, 1<<63 - 1}[s.luck.IntN(5)]
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", max(total-TailSize, 0), total-1, total))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(make([]byte, min(max(total, 0), TailSize)))
		return
	case 4:
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.content))
}

// contentOf makes a file of up to 300 KiB: a package of members of random lengths, in which
// data changes bytes that are counted from the end, or else bytes of which data are the last.
func contentOf(t *testing.T, data []byte, size uint32, built bool) []byte {
	luck := rand.New(rand.NewPCG(uint64(size), 0))
	noise := make([]byte, int(size)%(300<<10))
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise)
	if !built {
		return append(noise, data...)
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; ; i++ {
		name := fmt.Sprint(i)
		if i == 0 {
			name = pack.ManifestName
		}
		n := luck.IntN(len(noise) + 1)
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: uint16(luck.IntN(2)) * zip.Deflate})
		if err == nil {
			_, err = w.Write(noise[:n])
		}
		if err != nil {
			t.Fatal(err)
		}
		if noise = noise[n:]; len(noise) == 0 || i == 200 {
			break
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	content := b.Bytes()
	for ; len(data) > 2; data = data[3:] {
		content[len(content)-1-int(binary.LittleEndian.Uint16(data))%len(content)] ^= data[2]
	}
	return content
}

// FuzzRemotePackage: a package that is read by parts is the same as one that is read from a
// file, or cannot be used if the server has faults.
func FuzzRemotePackage(f *testing.F) {
	var now atomic.Pointer[unsound]
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { now.Load().ServeHTTP(w, r) }))
	f.Cleanup(srv.Close)
	client, err := fetch.New(fetch.Options{Backoff: 1, MaxRetries: 2, PerHost: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(client.Close)
	if err := client.TrustSource(context.Background(), srv.URL); err != nil {
		f.Fatal(err)
	}
	from := &Transport{Client: client}
	for _, size := range []uint32{0, 100, TailSize - 600, TailSize, TailSize + 1, 3*TailSize + 7} {
		for seed := range uint64(4) {
			f.Add([]byte{}, size, true, seed)
			f.Add([]byte{5, 0, 1, 60, 0, 9}, size, true, seed)
			f.Add([]byte("PK\x05\x06"), size, false, seed)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, size uint32, built bool, seed uint64) {
		s := &unsound{content: contentOf(t, data, size, built)}
		if seed > 0 {
			s.luck = rand.New(rand.NewPCG(seed, 1))
		}
		now.Store(s)
		file, wrong := pack.Open(bytes.NewReader(s.content), int64(len(s.content)), pack.Limits{})
		remote, err := from.openRemote(t.Context(), &harvest.Package{URI: srv.URL + "/1.zip"})
		switch {
		case errors.Is(err, errNoParts) && (seed > 0 || len(s.content) == 0), err != nil && seed > 0:
			return
		case (err == nil) != (wrong == nil):
			t.Fatalf("%d bytes by parts: %v; from a file: %v", len(s.content), err, wrong)
		case err != nil:
			if !harvest.OfSource(err) {
				t.Errorf("got %v, want an error of the Source", err)
			}
			return
		}
		if file.Len() != remote.Len() {
			t.Fatalf("got %d members, want %d", remote.Len(), file.Len())
		}
		a := &aRemote{pkg: remote}
		a.Unpacker = from.Unpack(t.Context(), nil, "", nil, func(func(Member, error) bool) {}, nil)
		defer a.Close()
		var all []pack.Bitstream
		for b := range remote.zip.Members() {
			a.members, all = append(a.members, b), append(all, b)
		}
		order := rand.New(rand.NewPCG(seed, 2)).Perm(len(all))
		a.begin(t.Context(), order)
		for _, i := range order {
			got, err := readAll(a.openMember(t.Context(), a.p, all[i], 1<<20))
			member, _ := file.Find(all[i].Name())
			want, wrong := readAll(member.Open(1 << 20))
			if err == nil && (wrong != nil || !bytes.Equal(got, want)) || err != nil && wrong == nil && seed == 0 {
				t.Errorf("member %q by parts: %d bytes, %v; from a file: %d, %v", all[i].Name(), len(got), err, len(want), wrong)
			}
		}
		a.wantEmpty(t.Errorf)
	})
}

func readAll(r io.ReadCloser, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
