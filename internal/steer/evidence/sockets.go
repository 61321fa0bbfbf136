package evidence

// This file finds internet sockets by their inode: with the kernel's own dump
// (inet_diag) for the machine's namespace, and from proc/PID/net for others.

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"

	"topside/internal/steer/alert"
)

// A socketCache holds what was read in one pass.
type socketCache struct {
	namespaces map[string]map[uint64]alert.Socket // by the text of ns/net
	own        string
	listening  []alert.Socket
	listed     bool
	listErr    error
}

// Socket finds a socket in the namespace of a process.
func (r *Reader) Socket(pid int32, inode uint64) (alert.Socket, bool) {
	namespace, err := r.fs.Readlink(ofPID(pid, "ns/net"))
	if errors.Is(err, fs.ErrNotExist) {
		namespace, err = r.fs.Readlink(r.fs.Folder(pid) + "/ns/net")
	}
	if err != nil {
		namespace = "of " + strconv.Itoa(int(pid))
	}
	table, ok := r.sockets.namespaces[namespace]
	if !ok {
		if r.sockets.namespaces == nil {
			r.sockets.namespaces = map[string]map[uint64]alert.Socket{}
			r.sockets.own, _ = r.fs.Readlink("proc/self/ns/net")
		}
		table = r.tableOf(pid, namespace)
		r.sockets.namespaces[namespace] = table
	}
	socket, ok := table[inode]
	return socket, ok
}

func (r *Reader) tableOf(pid int32, namespace string) map[uint64]alert.Socket {
	var list []alert.Socket
	if namespace == r.sockets.own && r.fs.Live() {
		if dumped, err := dump(false); err == nil {
			list = dumped
		}
	}
	if list == nil {
		list = r.fromFiles(r.fs.Folder(pid) + "/net/")
	}
	table := make(map[uint64]alert.Socket, len(list))
	for _, s := range list {
		if s.Inode != 0 {
			table[s.Inode] = s
		}
	}
	return table
}

// Listening lists the machine's listening TCP sockets.
func (r *Reader) Listening() ([]alert.Socket, error) {
	if r.sockets.listed {
		return r.sockets.listening, r.sockets.listErr
	}
	r.sockets.listed = true
	if r.fs.Live() {
		if list, err := dump(true); err == nil {
			r.sockets.listening = list
			return list, nil
		}
	}
	for _, s := range r.fromFiles("proc/net/") {
		if s.Listening {
			r.sockets.listening = append(r.sockets.listening, s)
		}
	}
	return r.sockets.listening, r.sockets.listErr
}

func (r *Reader) fromFiles(folder string) []alert.Socket {
	var out []alert.Socket
	for _, name := range []string{"tcp", "tcp6", "udp", "udp6"} {
		if data, err := r.fs.Read(folder + name); err == nil {
			out = append(out, ParseSockets(data, strings.HasPrefix(name, "udp"))...)
		}
	}
	return out
}

// The kernel's states of a socket (include/net/tcp_states.h).
const (
	stateEstablished = 1
	stateListen      = 10
)

// ParseSockets parses the content of proc/net/tcp, tcp6, udp or udp6
// (proc_pid_net(5)). Lines of another form are left out.
func ParseSockets(data []byte, udp bool) []alert.Socket {
	var out []alert.Socket
	for line := range bytes.Lines(data) {
		fields := strings.Fields(string(line))
		if len(fields) < 10 {
			continue
		}
		local, ok := parseAddress(fields[1])
		remote, ok2 := parseAddress(fields[2])
		state, err := strconv.ParseUint(fields[3], 16, 8)
		uid, err2 := strconv.ParseUint(fields[7], 10, 32)
		inode, err3 := strconv.ParseUint(fields[9], 10, 64)
		if !ok || !ok2 || err != nil || err2 != nil || err3 != nil {
			continue
		}
		out = append(out, alert.Socket{
			Inode: inode, UDP: udp, UID: uint32(uid), Local: local, Remote: remote,
			Listening: state == stateListen && !udp, Established: state == stateEstablished,
		})
	}
	return out
}

// parseAddress reads "0100007F:1F90": words of four bytes in the machine's own
// order, which is little-endian on everything that topside is built for.
func parseAddress(text string) (netip.AddrPort, bool) {
	address, port, ok := strings.Cut(text, ":")
	raw, err := hex.DecodeString(address)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || err2 != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.LittleEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr, uint16(number)), ok
}

// ListensOn lists the addresses that a process listens on, in its own network
// namespace.
func (r *Reader) ListensOn(pid int32) ([]string, error) {
	descriptors, err := r.Descriptors(pid)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, d := range descriptors {
		rest, ok := strings.CutPrefix(d.Target, "socket:[")
		inode, err := strconv.ParseUint(strings.TrimSuffix(rest, "]"), 10, 64)
		if !ok || err != nil {
			continue
		}
		if s, ok := r.Socket(pid, inode); ok && s.Listening {
			out = append(out, "tcp "+s.Local.String())
		}
	}
	return out, nil
}
