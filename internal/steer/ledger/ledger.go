// Package ledger keeps alerts beyond the end of the server that found them: which
// of them last, which a person acknowledged, and what ended lately.
//
// The ledger is one file for all servers and views of a user ([File]). Each of
// them adds what it knows to what is there, so that none undoes another's, and
// takes over what the others know. Alerts are of one machine and one boot: those
// of others are left alone. Package alert's book decides what lasts and what is
// the same alert as before.
package ledger

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"topside/internal/see/secret"
	"topside/internal/steer/alert"
	"topside/internal/steer/keptfile"
)

// Version is the version of the file that this program writes.
const Version = 1

// The bounds of a ledger.
const (
	mostElsewhere = 200                 // entries of other machines and boots
	oldest        = 30 * 24 * time.Hour // of entries of other machines and boots
	longest       = 8 << 20             // bytes of the file
)

// An Origin is where alerts are from.
type Origin struct{ Host, Boot string }

// A FileError is a ledger that could not be read or written.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string { return fmt.Sprintf("the ledger of alerts %s: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// ErrNewer says that a newer version wrote the ledger, which is not overwritten.
var ErrNewer = errors.New("a newer version of topside wrote it; it is kept as it is")

// A File is the ledger of one user. It is safe for concurrent use.
type File struct {
	path   string
	origin Origin

	mu    sync.Mutex
	stamp keptfile.Stamp
}

// New returns the ledger at a path, for the alerts of one machine and boot. It
// reads nothing yet; the file is made when there is something to keep.
func New(path string, origin Origin) *File { return &File{path: path, origin: origin} }

// Path is where the ledger is.
func (f *File) Path() string { return f.path }

// Kept are the alerts of this machine and boot.
type Kept struct {
	// Lasting are alerts that nobody has seen end; Past ended, the oldest first.
	Lasting, Past []alert.Alert
}

// Changed reports whether somebody else wrote the ledger since it was read.
func (f *File) Changed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !keptfile.StampOf(f.path).Same(f.stamp)
}

// Read returns what the ledger holds.
func (f *File) Read() (Kept, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	entries, err := f.read()
	if err != nil {
		return Kept{}, &FileError{f.path, err}
	}
	kept, _ := f.split(entries)
	return kept, nil
}

// Merge adds what this server knows to the ledger and returns what it holds then.
// The error is a *[FileError]; then nothing of the file was lost.
func (f *File) Merge(mine Kept) (Kept, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	merged, err := f.merge(mine)
	if err != nil {
		return Kept{}, &FileError{f.path, err}
	}
	return merged, nil
}

func (f *File) merge(mine Kept) (Kept, error) {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return Kept{}, err
	}
	unlock, err := keptfile.Lock(f.path + ".lock")
	if err != nil {
		return Kept{}, err
	}
	defer unlock()
	entries, err := f.read()
	if err != nil && !errors.Is(err, errUnreadable) {
		return Kept{}, err
	}
	if err != nil {
		// What cannot be understood is kept beside, once: alerts must not stop
		// being remembered for it.
		if err := os.Rename(f.path, f.path+".unreadable"); err != nil {
			return Kept{}, err
		}
	}
	theirs, others := f.split(entries)
	merged := Merge(theirs, mine)
	data, err := f.format(merged, others)
	if err != nil {
		return Kept{}, err
	}
	if err := keptfile.Replace(f.path, data); err != nil {
		return Kept{}, err
	}
	f.stamp = keptfile.StampOf(f.path)
	return merged, nil
}

// Merge joins what two servers of one machine know. The same alert is one whose
// id is the same and whose time overlaps: it began with the earlier, was seen
// last with the later, and what a person said of it last holds.
func Merge(a, b Kept) Kept {
	all := map[string][]alert.Alert{}
	for _, list := range [][]alert.Alert{a.Lasting, b.Lasting, a.Past, b.Past} {
		for _, one := range list {
			all[one.ID] = append(all[one.ID], one)
		}
	}
	var out Kept
	for _, looks := range all {
		for _, e := range episodes(looks) {
			if e.Active() {
				out.Lasting = append(out.Lasting, e)
			} else {
				out.Past = append(out.Past, e)
			}
		}
	}
	slices.SortFunc(out.Lasting, func(x, y alert.Alert) int {
		return cmp.Or(cmp.Compare(x.Severity.Rank(), y.Severity.Rank()), y.LastSeen.Compare(x.LastSeen), cmp.Compare(x.ID, y.ID))
	})
	out.Lasting = out.Lasting[:min(len(out.Lasting), alert.MostActive)]
	slices.SortFunc(out.Past, func(x, y alert.Alert) int { return cmp.Or(x.Ended.Compare(y.Ended), cmp.Compare(x.ID, y.ID)) })
	out.Past = out.Past[max(0, len(out.Past)-alert.MostHistory):]
	return out
}

// episodes joins looks at one alert that overlap in time.
func episodes(looks []alert.Alert) []alert.Alert {
	slices.SortStableFunc(looks, func(x, y alert.Alert) int { return x.FirstSeen.Compare(y.FirstSeen) })
	var out []alert.Alert
	for _, look := range looks {
		if last := len(out) - 1; last >= 0 && !look.FirstSeen.After(out[last].LastSeen) {
			out[last] = joined(out[last], look)
		} else {
			out = append(out, look)
		}
	}
	return out
}

func joined(a, b alert.Alert) alert.Alert {
	out := a
	if b.LastSeen.After(a.LastSeen) {
		out = b // the newer look describes it
	}
	if a.FirstSeen.Before(b.FirstSeen) {
		out.FirstSeen = a.FirstSeen
	} else {
		out.FirstSeen = b.FirstSeen
	}
	out.Count = max(a.Count, b.Count)
	out.Acknowledged, out.Note = a.Acknowledged, a.Note
	if b.Acknowledged.After(a.Acknowledged) {
		out.Acknowledged, out.Note = b.Acknowledged, b.Note
	}
	// Whoever saw it later knows whether it has ended. One that another server
	// has just not written down again ended with the one that says so.
	if a.Active() != b.Active() {
		ended, lasting := a, b
		if a.Active() {
			ended, lasting = b, a
		}
		out.Ended = ended.Ended
		if lasting.LastSeen.After(ended.LastSeen) {
			out.Ended = time.Time{}
		}
	}
	return out
}

// An entry is one alert in the file.
type entry struct {
	Host string `json:"host"`
	Boot string `json:"boot"`
	alert.Kept
}

type file struct {
	Version int     `json:"version"`
	Alerts  []entry `json:"alerts"`
}

var errUnreadable = errors.New("it does not hold a ledger")

// read reads the file; none is an empty one.
func (f *File) read() ([]entry, error) {
	f.stamp = keptfile.StampOf(f.path)
	data, err := keptfile.Read(f.path, longest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var in file
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	if in.Version > Version {
		return nil, ErrNewer
	}
	if in.Version < 1 {
		return nil, errUnreadable
	}
	return in.Alerts, nil
}

// split takes apart what is of this machine and boot. What lasted when the
// machine went down has ended.
func (f *File) split(entries []entry) (here Kept, elsewhere []entry) {
	for _, e := range entries {
		if e.ID == "" {
			continue
		}
		a := e.Alert()
		switch {
		case e.Host != f.origin.Host:
			elsewhere = append(elsewhere, e)
		case a.Active() && e.Boot != f.origin.Boot:
			a.Ended = a.LastSeen
			here.Past = append(here.Past, a)
		case a.Active():
			here.Lasting = append(here.Lasting, a)
		default:
			here.Past = append(here.Past, a)
		}
	}
	return Merge(here, Kept{}), elsewhere
}

func (f *File) format(here Kept, elsewhere []entry) ([]byte, error) {
	out := file{Version: Version, Alerts: []entry{}}
	for _, list := range [][]alert.Alert{here.Lasting, here.Past} {
		for _, a := range list {
			out.Alerts = append(out.Alerts, entry{f.origin.Host, f.origin.Boot, discreet(alert.KeptOf(a))})
		}
	}
	slices.SortStableFunc(elsewhere, func(x, y entry) int { return y.LastSeen.Compare(x.LastSeen) })
	for _, e := range elsewhere[:min(len(elsewhere), mostElsewhere)] {
		if time.Since(e.LastSeen) < oldest {
			out.Alerts = append(out.Alerts, e)
		}
	}
	data, err := json.MarshalIndent(out, "", " ")
	return append(data, '\n'), err
}

// discreet takes passwords and tokens out of the texts.
func discreet(k alert.Kept) alert.Kept {
	k.Message, k.Note = secret.Text(k.Message), secret.Text(k.Note)
	k.Evidence, k.Next = discreetAll(k.Evidence), discreetAll(k.Next)
	return k
}

func discreetAll(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = secret.Text(t)
	}
	return out
}
