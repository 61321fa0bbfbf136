package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"topside/internal/see/plaintext"
	"topside/internal/see/secret"
)

// This file asks one engine for its list of containers: one HTTP request over
// its Unix socket, with a bound on time, bytes and containers. The stats calls
// of the engines are never used: they take a second by design, and the cgroup
// says more at once.

// The errors of an answer that cannot be used; each is wrapped with details.
var (
	errStatus   = errors.New("an error status")
	errNonsense = errors.New("no list of containers")
	errTooLarge = errors.New("an answer beyond the bound")
	errRedirect = errors.New("a redirection")
)

// An answer is a list of containers; kind is set once the engine's own header
// told which it is.
type answer struct {
	kind       string
	containers []Info
	omitted    int
}

// listPath is without a version: engines differ in the oldest that they accept
// (Docker 29 refuses what Docker 20 calls its newest), and all of them serve
// this path with their own.
const listPath = "http://engine/containers/json"

func fetch(ctx context.Context, socket string, o *EngineOptions) (a answer, err error) {
	transport := &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return o.dial(ctx, socket) },
		DisableKeepAlives:      true, // nothing is left behind between listings
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		ReadBufferSize:         16 << 10,
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(to *http.Request, _ []*http.Request) error {
		return fmt.Errorf("%w to %s, which is not followed", errRedirect, secret.Text(plaintext.Line(to.URL.String())))
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, listPath, nil)
	if err != nil {
		return a, err
	}
	response, err := client.Do(request)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	a.kind = kindOf(response.Header)
	body := &boundedReader{reader: response.Body, left: o.MaxBody}
	if response.StatusCode != http.StatusOK {
		return a, fmt.Errorf("%w: %d%s", errStatus, response.StatusCode, message(body))
	}
	a.containers, a.omitted, err = decodeList(body, o.MaxContainers)
	return a, err
}

// kindOf tells Docker and Podman apart by what they say of themselves: Podman
// also listens under Docker's name.
func kindOf(header http.Header) string {
	server := header.Get("Server")
	switch {
	case strings.HasPrefix(server, "Libpod/"), header.Get("Libpod-Api-Version") != "":
		return EnginePodman
	case strings.HasPrefix(server, "Docker/"):
		return EngineDocker
	}
	return ""
}

// message takes the engine's own words out of an error's body.
func message(body io.Reader) string {
	text, _ := io.ReadAll(io.LimitReader(body, 4<<10))
	var said struct{ Message string }
	if json.Unmarshal(text, &said) != nil || said.Message == "" {
		return ""
	}
	return ": " + brief(said.Message)
}

// brief cuts a text from outside to one short line.
func brief(text string) string { return bounded(text, 200) }

// bounded is text from outside on one line of at most so many characters.
func bounded(text string, most int) string {
	line, _ := plaintext.Bounded(text, most)
	return line
}

// A boundedReader fails, rather than ends, behind its bound: a cut list must
// not pass for a whole one.
type boundedReader struct {
	reader io.Reader
	left   int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.reader.Read(p)
	b.left -= int64(n)
	return n, err
}

// An entry is one container as both engines write it.
type entry struct {
	ID      string `json:"Id"`
	Names   []string
	Image   string
	ImageID string
	Labels  map[string]string
	State   string
	Status  string
	Created json.RawMessage // seconds since the epoch, or RFC 3339
	Pid     int32
}

// decodeList reads a JSON array of containers one by one, keeps the first most
// and counts the rest.
func decodeList(body io.Reader, most int) (list []Info, omitted int, err error) {
	decoder := json.NewDecoder(body)
	first, err := decoder.Token()
	if err != nil {
		return nil, 0, nonsense(err)
	}
	switch first {
	case nil:
		return nil, 0, fmt.Errorf("%w but null", errNonsense)
	case json.Delim('['):
	default:
		return nil, 0, fmt.Errorf("%w but JSON of another form", errNonsense)
	}
	for decoder.More() {
		var e entry
		if err := decoder.Decode(&e); err != nil {
			return nil, 0, nonsense(err)
		}
		if !validID(e.ID) {
			return nil, 0, fmt.Errorf("%w: an entry without a proper Id", errNonsense)
		}
		if len(list) < most {
			list = append(list, e.info())
		} else {
			omitted++
		}
	}
	if _, err := decoder.Token(); err != nil {
		return nil, 0, nonsense(err)
	}
	return list, omitted, endOf(decoder)
}

// endOf makes sure that nothing follows the list.
func endOf(decoder *json.Decoder) error {
	switch _, err := decoder.Token(); {
	case err == io.EOF:
		return nil
	case err != nil:
		return nonsense(err)
	}
	return fmt.Errorf("%w: more JSON behind it", errNonsense)
}

func nonsense(err error) error {
	if errors.Is(err, errTooLarge) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", errNonsense, err)
}

func validID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for i := 0; i < len(id); i++ {
		c := id[i]
		alnum := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !alnum && (i == 0 || c != '-' && c != '_' && c != '.') {
			return false
		}
	}
	return true
}

// The bounds of what an engine tells of one container, in characters and in
// labels. Engines have bounds of their own; something that only listens at their
// socket has none.
const (
	nameBound  = 256
	imageBound = 512
	stateBound = 128
	labelBound = 4096
	mostNames  = 16
	mostLabels = 512
)

func (e *entry) info() Info {
	info := Info{
		ID: e.ID, Image: bounded(e.Image, imageBound), ImageID: bounded(e.ImageID, imageBound),
		State: bounded(e.State, stateBound), Summary: bounded(e.Status, stateBound), Created: created(e.Created),
	}
	for _, name := range e.Names[:min(len(e.Names), mostNames)] {
		// Docker also lists the names of legacy links (/other/alias).
		if name = strings.TrimPrefix(name, "/"); name != "" && !strings.Contains(name, "/") {
			info.Names = append(info.Names, bounded(name, nameBound))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Labels)) {
		if len(info.Labels) == mostLabels {
			break
		}
		if info.Labels == nil {
			info.Labels = make(map[string]string, min(len(e.Labels), mostLabels))
		}
		info.Labels[bounded(name, nameBound)] = bounded(e.Labels[name], labelBound)
	}
	if e.Pid > 0 {
		info.PID = &e.Pid
	}
	return info
}

func created(raw json.RawMessage) time.Time {
	raw = bytes.TrimSpace(raw)
	var seconds int64
	if json.Unmarshal(raw, &seconds) == nil {
		if seconds <= 0 || seconds > 1<<40 {
			return time.Time{}
		}
		return time.Unix(seconds, 0).UTC()
	}
	var at time.Time
	if json.Unmarshal(raw, &at) == nil {
		return at.UTC()
	}
	return time.Time{}
}

// explain turns a failure into a status and a sentence. costly is true when
// asking again at once would cost time again.
func explain(err error, socket string, timeout time.Duration) (status Status, reason string, costly bool) {
	var timeouter net.Error
	switch {
	case errors.Is(err, fs.ErrPermission):
		return Denied, deniedReason(socket), false
	case errors.Is(err, syscall.ECONNREFUSED):
		return Unreachable, "nobody listens on the socket (connection refused): the engine is not running", false
	case errors.Is(err, fs.ErrNotExist):
		return Absent, "the socket is gone", false
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeouter) && timeouter.Timeout():
		return Unreachable, fmt.Sprintf("no whole answer within %s", timeout), true
	case errors.Is(err, context.Canceled):
		return Unreachable, "no longer asked", true
	case errors.Is(err, errTooLarge), errors.Is(err, errStatus), errors.Is(err, errNonsense), errors.Is(err, errRedirect):
		return Unreachable, "it answered with " + brief(innermost(err)), true
	}
	return Unreachable, brief(innermost(err)), true
}

// innermost takes the http client's wrapping (Get "http://…": ) off.
func innermost(err error) string {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return err.Error()
}

func deniedReason(socket string) string {
	return "no permission for " + socket + "; run as root, or join the group that owns the socket"
}
