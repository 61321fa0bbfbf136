package tool

// This file declares the tools of the topup contract and sends each call to the
// session or host that it names (contract topup, sections 5 and 7.1).
// topup_eval.go holds the tools of a session, topup_session.go those that manage
// named sessions, topup_host.go those of hosts, topup_blob.go the transfer of
// files, topup_peer.go the connection to another server of this contract.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"topside/internal/compute/engine"
	"topside/internal/compute/pool"
	"topside/internal/compute/session"
	"topside/internal/fleet/transfer"
)

// TopupOptions are what the tools of the topup contract work on.
type TopupOptions struct {
	Pool *pool.Pool
	// Sockets give named sessions their sockets.
	Sockets TopupSockets
	// HostsPath is the registry of hosts; "" keeps it in memory.
	HostsPath string
	// Version of this program, which hosts are told.
	Version string
	// Warn tells the person at the server of a trouble that fails no call; nil
	// tells nobody.
	Warn func(err error)
}

// TopupSockets serve named sessions on Unix sockets.
type TopupSockets interface {
	// Socket returns the path of the session's socket, which is made if needed.
	Socket(session string) (string, error)
}

// A Topup is the state that all clients of one server of the topup contract
// share. It is safe for concurrent use.
type Topup struct {
	o     TopupOptions
	peers peers // named sessions that are other servers
	hosts *topupHosts

	unwritten sync.Once // the registry of sessions: said once
}

// NewTopup returns the shared state. Its Close ends the connections to others;
// the pool stays the caller's.
func NewTopup(o TopupOptions) (*Topup, error) {
	hosts, err := newTopupHosts(o)
	if err != nil {
		return nil, err
	}
	return &Topup{o: o, hosts: hosts}, nil
}

// Close ends the connections to other servers and writes what was last seen.
func (t *Topup) Close() error {
	t.peers.close()
	return t.hosts.close()
}

// A TopupClient is one client's view: what it means by "local", and whether it
// answers the back-channel.
type TopupClient struct {
	*Topup
	// Named is the session that this client calls local; "" for the default one.
	Named string
	// Local opens it.
	Local func(context.Context) (*session.Session, error)
	// DefaultHost receives the calls that name no host; "" for none (--remote).
	DefaultHost string
	// Ask makes a request to this client; nil when it cannot be asked.
	Ask func(ctx context.Context, method string, params any) (json.RawMessage, error)

	// Stop cancels the call of this client that has its turn at a place, and tells
	// whether there was one.
	Stop func(place string) bool

	back atomic.Bool
}

// A PeerResult is the result of another server, passed on as it came.
type PeerResult json.RawMessage

// ConnectFailure is the structured error of section 5.13: a session or a host
// that could not be reached or started.
type ConnectFailure struct {
	Host, Session string // one of them
	Message       string
}

func (e *ConnectFailure) Error() string { return e.Message }

// topupRoute are the two arguments that most tools take.
var topupRoute = []Property{{Name: "host", Type: String}, {Name: "session", Type: String}}

// TopupTools declares the tools of the topup contract in the order of its list.
// Their schemas are bare: properties have a type and nothing else.
func TopupTools() []*Tool {
	text := func(name string) Property { return Property{Name: name, Type: String} }
	needed := func(name string) Property { return Property{Name: name, Type: String, Required: true} }
	number := func(name string) Property { return Property{Name: name, Type: Number} }
	routed := func(own ...Property) []Property { return append(own, topupRoute...) }
	return []*Tool{
		{Name: "eval", Description: topupEval, Input: routed(needed("source"), number("timeout"))},
		{Name: "eval_batch", Description: topupEvalBatch, Input: routed(Property{Name: "sources", Type: Array, Required: true}, number("timeout"))},
		{Name: "env", Description: topupEnv, Input: routed(text("filter"), Property{Name: "all", Type: Boolean})},
		{Name: "lookup", Description: topupLookup, Input: routed(needed("name"))},
		{Name: "reset", Description: topupReset, Input: routed()},
		{Name: "cancel", Description: topupCancel, Input: routed()},
		{Name: "load", Description: topupLoad, Input: routed(needed("path"))},
		{Name: "checkpoint", Description: topupCheckpoint, Input: routed(needed("label"))},
		{Name: "restore", Description: topupRestore, Input: routed(needed("label"))},
		{Name: "compile_to_binary", Description: topupCompile, Input: routed(needed("entry"), needed("out"), Property{Name: "libraries", Type: Array})},
		{Name: "push_file", Description: topupPush, Input: []Property{needed("host"), needed("local_path"), text("remote_path")}},
		{Name: "pull_file", Description: topupPull, Input: []Property{needed("host"), needed("remote_path"), text("local_path")}},
		{Name: "start_session", Description: topupStartHost, Input: []Property{needed("host"), text("remote_socket")}},
		{Name: "restart_session", Description: topupRestartHost, Input: []Property{needed("host")}},
		{Name: "update_host", Description: topupUpdateHost, Input: []Property{needed("host"), text("description"), text("os")}},
		{Name: "start_local_session", Description: topupStart, Input: []Property{needed("session"), text("prewarm"), number("pool")}},
		{Name: "restart_local_session", Description: topupRestart, Input: []Property{needed("session")}},
		{Name: "update_local_session", Description: topupUpdate, Input: []Property{needed("session"), text("prewarm"), number("pool")}},
	}
}

// topupArguments are the arguments of one call as the contract reads them:
// unknown ones and those of another type count as absent, and of two with one
// name the first counts.
type topupArguments struct {
	sent map[string]json.RawMessage
}

func readTopupArguments(raw json.RawMessage) topupArguments {
	a := topupArguments{sent: map[string]json.RawMessage{}}
	all, err := members(raw)
	if err != nil {
		return a
	}
	for _, m := range all {
		if _, twice := a.sent[m.name]; !twice {
			a.sent[m.name] = m.sent
		}
	}
	return a
}

// text returns a string argument.
func (a topupArguments) text(name string) (string, bool) {
	var s string
	sent := a.sent[name]
	if len(sent) == 0 || sent[0] != '"' || json.Unmarshal(sent, &s) != nil {
		return "", false
	}
	return s, true
}

// needed returns a string argument or the contract's complaint.
func (a topupArguments) needed(name string) (string, error) {
	s, ok := a.text(name)
	if !ok {
		return "", missing(name)
	}
	return s, nil
}

func missing(name string) error { return topupUsage("missing '%s' argument", name) }

// topupUsage is a failure that the client sees as plain text.
func topupUsage(format string, args ...any) error {
	return &session.UsageError{Text: fmt.Sprintf(format, args...)}
}

// maybe returns a string argument, or nil.
func (a topupArguments) maybe(name string) *string {
	if s, ok := a.text(name); ok {
		return &s
	}
	return nil
}

func (a topupArguments) number(name string) (float64, bool) {
	sent := a.sent[name]
	if len(sent) == 0 || sent[0] != '-' && (sent[0] < '0' || sent[0] > '9') {
		return 0, false
	}
	var f float64
	if json.Unmarshal(sent, &f) != nil {
		return math.Inf(1), true // a number beyond what a float holds
	}
	return f, true
}

func (a topupArguments) flag(name string) bool { return string(a.sent[name]) == "true" }

// texts returns an array of strings; ok is false for anything else.
func (a topupArguments) texts(name string) (list []string, ok bool) {
	var elements []json.RawMessage
	if json.Unmarshal(a.sent[name], &elements) != nil || elements == nil {
		return nil, false
	}
	list = []string{}
	for _, e := range elements {
		var s string
		if len(e) == 0 || e[0] != '"' || json.Unmarshal(e, &s) != nil {
			return nil, false
		}
		list = append(list, s)
	}
	return list, true
}

// elsewhere returns the host or session that an argument names; the absent, the
// empty and "local" name none.
func (a topupArguments) elsewhere(name string) string {
	s, _ := a.text(name)
	if s == "local" {
		return ""
	}
	return s
}

// without encodes the arguments but for those that route the call.
func (a topupArguments) without(names ...string) json.RawMessage {
	var o object
	for name, sent := range a.sent {
		dropped := false
		for _, n := range names {
			dropped = dropped || n == name
		}
		if !dropped {
			o.add(name, sent)
		}
	}
	return o.bytes()
}

// ReadTopupCall reads the parameters of tools/call. Of two members with one name
// the first counts. The error has the contract's words.
func ReadTopupCall(params json.RawMessage) (name string, arguments json.RawMessage, err error) {
	all, err := members(params)
	if err != nil || len(params) == 0 || params[0] != '{' {
		return "", nil, errors.New("invalid params")
	}
	var sentName json.RawMessage
	for _, m := range all {
		switch {
		case m.name == "name" && sentName == nil:
			sentName = m.sent
		case m.name == "arguments" && arguments == nil:
			arguments = m.sent
		}
	}
	if len(sentName) == 0 || sentName[0] != '"' || json.Unmarshal(sentName, &name) != nil || name == "" {
		return "", nil, errors.New("missing tool name")
	}
	if len(arguments) == 0 || arguments[0] != '{' {
		arguments = json.RawMessage(`{}`)
	}
	return name, arguments, nil
}

// A topupHandler works on one session of this server.
type topupHandler func(ctx context.Context, c *TopupClient, s *session.Session, a topupArguments) (Result, error)

// topupSession are the tools that work on a session, here or elsewhere.
var topupSession map[string]topupHandler

// topupManage are the tools that work on the registries and do not route.
var topupManage map[string]func(ctx context.Context, c *TopupClient, a topupArguments) (Result, error)

func init() {
	topupSession = map[string]topupHandler{
		"eval": evalTopup, "eval_batch": evalBatchTopup, "env": envTopup, "lookup": lookupTopup,
		"reset": resetTopup, "load": loadTopup, "checkpoint": checkpointTopup, "restore": restoreTopup,
		"compile_to_binary": compileTopup,
	}
	topupManage = map[string]func(context.Context, *TopupClient, topupArguments) (Result, error){
		"push_file": pushTopup, "pull_file": pullTopup,
		"start_session": startHostTopup, "restart_session": restartHostTopup, "update_host": updateHostTopup,
		"start_local_session": startTopup, "restart_local_session": restartTopup, "update_local_session": updateTopup,
	}
}

// ok is the plain reply of the tools that have nothing to tell.
var ok = Result{Text: "ok"}

// Call serves one call. Its errors are for the text of a result, a
// [*ConnectFailure] for its JSON.
func (c *TopupClient) Call(ctx context.Context, name string, raw json.RawMessage) (Result, error) {
	a := c.arguments(name, raw)
	if manage := topupManage[name]; manage != nil {
		return manage(ctx, c, a)
	}
	host, named := a.elsewhere("host"), a.elsewhere("session")
	switch {
	case host != "" && named != "":
		return Result{}, topupUsage("host and session are mutually exclusive; pass at most one")
	case host != "" && name == "cancel":
		if c.Stop != nil && c.Stop(TopupPlace(host, "")) {
			return ok, nil
		}
		return ok, c.hosts.cancel(ctx, host)
	case host != "":
		return c.hosts.call(ctx, host, name, a.without("host", "session"))
	case named != "":
		if peer := c.peers.get(named); peer != nil && name != "cancel" {
			result, err := peer.call(ctx, name, a.without("host", "session"))
			if err == nil {
				c.o.Pool.Touch(named)
			}
			return result, err
		}
	}
	return c.here(ctx, name, named, a)
}

// arguments reads the arguments, and with a default host adds it to the calls that
// name neither a host nor a session (section 1.4, the defect mended).
func (c *TopupClient) arguments(name string, raw json.RawMessage) topupArguments {
	a := readTopupArguments(raw)
	if c.DefaultHost == "" || topupRegistries[name] {
		return a
	}
	if _, given := a.sent["host"]; !given && a.elsewhere("session") == "" {
		a.sent["host"] = encode(c.DefaultHost)
	}
	return a
}

// topupRegistries are the tools whose host argument is never filled in.
var topupRegistries = map[string]bool{
	"start_session": true, "restart_session": true, "update_host": true,
	"start_local_session": true, "restart_local_session": true, "update_local_session": true,
}

// here serves a call on a session of this process.
func (c *TopupClient) here(ctx context.Context, name, named string, a topupArguments) (Result, error) {
	handler := topupSession[name]
	if handler == nil {
		if name == "cancel" && named != "" && c.Stop != nil && c.Stop(TopupPlace("", named)) {
			return ok, nil // its start perhaps: then it is not registered yet
		}
		if named != "" && c.peers.get(named) == nil && !(name == "cancel" && c.o.Pool.Starting(named)) {
			if _, err := c.o.Pool.Session(named); err != nil {
				return Result{}, err
			}
		}
		switch name {
		case "cancel":
			c.Cancel("", named)
			return ok, nil
		case "_send_blob":
			return blobTool(transfer.SendBlob, a)
		case "_recv_blob":
			return blobTool(transfer.RecvBlob, a)
		case "_enable_back_channel":
			c.back.Store(true)
			return ok, nil
		}
		return Result{}, topupUsage("unknown tool: %s", name)
	}
	if c.back.Load() && c.Ask != nil {
		ctx = context.WithValue(ctx, askKey{}, c)
	}
	s, err := c.session(ctx, named)
	if err != nil {
		return Result{}, err
	}
	return handler(ctx, c, s, a)
}

func (c *TopupClient) session(ctx context.Context, named string) (*session.Session, error) {
	if named != "" {
		return c.o.Pool.Session(named)
	}
	return c.Local(ctx)
}

// Cancel stops the evaluation that runs in a session, or forwards the wish. What is
// unknown or idle is left alone. It does not wait, so that it can be called in the
// order of the client's messages: an evaluation that comes later is not meant.
func (c *TopupClient) Cancel(host, named string) {
	switch {
	case host != "" && named != "":
	case c.Stop != nil && c.Stop(TopupPlace(host, named)):
	case host != "":
		c.hosts.cancelSoon(host)
	case named != "":
		if peer := c.peers.get(named); peer != nil {
			peer.cancel(context.Background())
			return
		}
		fallthrough
	default:
		if named == "" {
			named = c.Named
		}
		if named != "" && c.o.Pool.CancelStart(named) {
			return
		}
		if s := c.o.Pool.Opened(named); s != nil {
			s.Cancel()
		}
	}
}

// TopupCancelled reads whom a notifications/cancelled means: its host or session,
// and whether it names a request instead.
func (c *TopupClient) TopupCancelled(params json.RawMessage) (host, named string, request bool) {
	a := readTopupArguments(params)
	if _, request = a.sent["requestId"]; request {
		return "", "", true
	}
	host, named = a.elsewhere("host"), a.elsewhere("session")
	if _, given := a.sent["host"]; !given && named == "" {
		host = c.DefaultHost
	}
	return host, named, false
}

// Places names what a call works on, so that calls on one thing are served in the
// order of their arrival, and others are not kept waiting. A cancellation works on
// nothing: it overtakes.
func (c *TopupClient) Places(name string, raw json.RawMessage) []string {
	a := c.arguments(name, raw)
	host, named := a.elsewhere("host"), a.elsewhere("session")
	switch name {
	case "cancel":
		return nil
	case "start_local_session":
		places := []string{TopupPlace("", named)}
		size, _ := a.number("pool")
		for i := 1; i < int(min(size, pool.MaxSiblings)); i++ {
			places = append(places, TopupPlace("", fmt.Sprintf("%s.%d", named, i)))
		}
		return places
	}
	places := []string{TopupPlace(host, named)}
	if name == "checkpoint" || name == "restore" {
		// What one session saves, another may be about to restore.
		places = append(places, "checkpoints")
	}
	return places
}

// TopupPlace is the name of one place of [TopupClient.Places].
func TopupPlace(host, named string) string {
	switch {
	case host != "":
		return "host " + host
	case named != "":
		return "session " + named
	}
	return "local"
}

// askKey finds the client that answers the back-channel of an evaluation.
type askKey struct{}

// TopupBack is the back-channel of the sessions of a pool: the client on whose
// behalf an evaluation runs is asked, if it said that it answers (section 8).
type TopupBack struct{}

var _ engine.BackSwitch = TopupBack{}

// Active implements [engine.BackSwitch].
func (TopupBack) Active(ctx context.Context) bool { return ctx.Value(askKey{}) != nil }

// ReadBack implements [engine.Back].
func (TopupBack) ReadBack(ctx context.Context, path string) ([]byte, error) {
	return transfer.FetchBlob(ctx, askClient, path, TopupMaxTransfer())
}

// WriteBack implements [engine.Back].
func (TopupBack) WriteBack(ctx context.Context, path string, data []byte) error {
	_, err := transfer.StoreBlob(ctx, askClient, path, data, TopupMaxTransfer())
	return err
}

// askClient makes a request to the client of the evaluation; it is a transfer.Caller.
func askClient(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	c, _ := ctx.Value(askKey{}).(*TopupClient)
	if c == nil {
		return nil, errors.New("no back-channel")
	}
	return c.Ask(ctx, method, params)
}
