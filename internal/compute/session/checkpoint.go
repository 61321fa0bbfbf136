package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"topside/internal/compute/engine"
	"topside/internal/privatefile"
)

// UsageError is a call that cannot work as it was made; the text is the contract's (sections 5.7 to 5.10).
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return e.Text }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// CheckLabel tells what is wrong with the name of a checkpoint.
func CheckLabel(label string) error {
	switch {
	case label == "":
		return usage("label must be non-empty")
	case strings.HasPrefix(label, "."):
		return usage("label must not start with '.'")
	case strings.Contains(label, ".."):
		return usage("label must not contain '..'")
	}
	for _, c := range []byte(label) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return usage("label may only contain [A-Za-z0-9._-]")
		}
	}
	return nil
}

func (s *Session) checkpointPath(what, label string) (string, error) {
	if err := CheckLabel(label); err != nil {
		return "", err
	}
	name := label + s.o.Language.Capabilities().Extension
	if len(name) > privatefile.LongestName {
		return "", usage("label is too long: its file's name would have %d bytes, and %d are allowed", len(name), privatefile.LongestName)
	}
	if !s.log.Enabled() {
		return "", usage("%s requires phrase logging (TOPUP_LOG is off)", what)
	}
	if s.o.CheckpointDir == "" {
		return "", usage("%s disabled (TOPUP_CHECKPOINT_DIR=off)", what)
	}
	return filepath.Join(s.o.CheckpointDir, name), nil
}

// Previous is the label of the history before this one, wherever nobody saved a checkpoint under it: the log that the
// last reset, restore or restart of the session, or an earlier server, has put aside.
const Previous = "previous"

// A plainLanguage needs more in a file than in a session. Plain adds it, a title in a comment included where the
// language has one, and Phrases blanks out what a session must not evaluate.
type plainLanguage interface {
	Plain(log, title string) string
	Phrases(file string) string
}

// plain is a log as a file that a person can read and run.
func (s *Session) plain(log, label string) string {
	l, ok := s.o.Language.(plainLanguage)
	if !ok {
		return log
	}
	name := s.o.Name
	if name == "" {
		name = "local"
	}
	return l.Plain(log, fmt.Sprintf("checkpoint %s of the session %q, %s", label, name, time.Now().UTC().Format(time.RFC3339)))
}

// adopt makes a checkpoint of a log that another server has left, under a label that is free, and puts the log aside.
func (s *Session) adopt(path string) (label string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(s.o.CheckpointDir, 0o700); err != nil {
		return "", err
	}
	ext := s.o.Language.Capabilities().Extension
	base := strings.TrimSuffix(filepath.Base(s.log.wanted), ext)
	base = strings.Trim(outsideLabel.ReplaceAllString(base, "_"), ".")
	base = fmt.Sprintf("%.60s-second-%s", base, info.ModTime().UTC().Format("20060102-150405"))
	label = base
	for n := 2; ; n++ {
		_, err := os.Lstat(filepath.Join(s.o.CheckpointDir, label+ext))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil || n > 99 {
			return "", errors.Join(err, errors.New("no label is free"))
		}
		label = fmt.Sprintf("%s-%d", base, n)
	}
	if err := privatefile.Replace(filepath.Join(s.o.CheckpointDir, label+ext), []byte(s.plain(string(text), label))); err != nil {
		return "", err
	}
	return label, putAside(path)
}

// outsideLabel matches what a label may not have.
var outsideLabel = regexp.MustCompile(`[^A-Za-z0-9._-]|\.(?:\.)+`)

// phrasesOf is what of a file a session evaluates; every place in it is that of the file.
func (s *Session) phrasesOf(file string) string {
	if l, ok := s.o.Language.(plainLanguage); ok {
		return l.Phrases(file)
	}
	return file
}

// Checkpoint writes the log as a source file under the label and returns its path.
func (s *Session) Checkpoint(ctx context.Context, label string) (string, error) {
	path, err := s.checkpointPath("checkpoint", label)
	if err != nil {
		return "", err
	}
	_, leave, err := s.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	if err := os.MkdirAll(s.o.CheckpointDir, 0o700); err != nil {
		return "", usage("checkpoint: %v", err)
	}
	if err := privatefile.Replace(path, []byte(s.plain(s.log.Text(), label))); err != nil {
		return "", usage("checkpoint: %v", err)
	}
	return path, nil
}

// Checkpoints lists the labels.
func (s *Session) Checkpoints() ([]string, error) {
	ext := s.o.Language.Capabilities().Extension
	entries, err := os.ReadDir(s.o.CheckpointDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	labels := []string{}
	for _, e := range entries {
		if label, ok := strings.CutSuffix(e.Name(), ext); ok && CheckLabel(label) == nil && e.Type().IsRegular() {
			labels = append(labels, label)
		}
	}
	slices.Sort(labels)
	return labels, nil
}

// Restore resets the session and evaluates the checkpoint, which becomes its log. When a phrase fails, the phrases
// before it are the state and the log; the checkpoint itself and the previous log (path.1) stay.
func (s *Session) Restore(ctx context.Context, label string) (Result, error) {
	path, err := s.checkpointPath("restore", label)
	if err != nil {
		return Result{}, err
	}
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return Result{}, err
	}
	defer leave()
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && label == Previous {
		path = s.log.previous()
		text, err = os.ReadFile(path)
	}
	file, _ := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Result{}, usage("no such checkpoint: %s", label)
	}
	if err != nil {
		return Result{}, usage("restore: %v", err)
	}
	if err := s.reset(ctx); err != nil {
		return Result{}, err
	}
	// The whole text is the log from now on, as the compiler's messages show its lines.
	whole := string(text)
	if whole != "" && !strings.HasSuffix(whole, "\n") {
		whole += "\n"
	}
	unwritten := s.log.replace(nil, whole)
	source := s.phrasesOf(string(text))
	complete := false
	var entries []entry
	r, err := s.perform(ctx, Request{Source: source}, func(ctx context.Context, c *engine.Child, seq uint64, call *engine.Call) (engine.Reply, error) {
		return c.Eval(ctx, seq, source, s.log.Path(), true, 0, call)
	}, func(reply engine.Reply) {
		entries = s.entries(source, reply.Phrases)
		complete = reply.Failure == nil
		s.log.take(entries)
	})
	if err == nil && !complete || unwritten != nil {
		unwritten = s.log.correct(entries)
	}
	if unwritten != nil {
		s.note("log", "the phrase log cannot be written: "+unwritten.Error())
	}
	if r.Err != nil {
		// The log has only what came before the failure: the places are in the checkpoint.
		r.moveTo(s.log.whereabouts(path, file), s.log.Path())
	}
	return r, err
}

// moveTo renames the file of all places.
func (r *Result) moveTo(path, old string) {
	rename := func(l *engine.Location) {
		if l != nil && l.File == old {
			l.File = path
		}
	}
	rename(r.Err.Location)
	for i := range r.Err.Backtrace {
		rename(&r.Err.Backtrace[i])
	}
	for i := range r.Warnings {
		rename(r.Warnings[i].Location)
	}
	for i := range r.Err.Related {
		r.Err.Related[i] = strings.ReplaceAll(r.Err.Related[i], old, path)
	}
}

// Load loads a compiled archive. It is not in the log; a replay after a crash loads it again.
func (s *Session) Load(ctx context.Context, path string) (Result, error) {
	caps := s.o.Language.Capabilities()
	ext := strings.ToLower(filepath.Ext(path))
	if !slices.Contains(caps.Archives, ext) {
		if ext == "" {
			ext = "(none)"
		}
		return Result{}, usage("load: %s has extension %s; this driver accepts %s", path, ext, acceptText(s.o.Language, caps))
	}
	if _, err := os.Stat(path); err != nil {
		return Result{}, usage("load: file not found: %s", path)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return Result{}, err
	}
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return Result{}, err
	}
	defer leave()
	return s.perform(ctx, Request{Source: ""}, func(ctx context.Context, c *engine.Child, seq uint64, call *engine.Call) (engine.Reply, error) {
		return c.Load(ctx, seq, absolute, call)
	}, func(reply engine.Reply) {
		if reply.Failure == nil {
			s.log.add([]entry{{seq: s.seq, load: absolute}})
		}
	})
}

func acceptText(l engine.Language, caps engine.Capabilities) string {
	switch l.Name() {
	case "ocaml":
		return ".cma (got Sys.backend_type = Bytecode)"
	case "ocaml-native":
		return ".cmxs (got Sys.backend_type = Native)"
	}
	return strings.Join(caps.Archives, ", ")
}
