package evidence

// The dump of the kernel's internet sockets over netlink (sock_diag(7)).

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"topside/internal/steer/alert"
)

// The layout of the messages (linux/inet_diag.h).
const (
	sockDiagByFamily = 20
	headerSize       = 16
	requestSize      = headerSize + 56
	messageSize      = 72
)

// patience bounds how long the kernel is waited for.
const patience = time.Second

// dump lists the sockets of our own network namespace: those that listen, or
// those that are connected too.
func dump(listening bool) ([]alert.Socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("sock_diag: %w", err)
	}
	defer unix.Close(fd)
	limit := unix.NsecToTimeval(patience.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return nil, fmt.Errorf("sock_diag: %w", err)
	}
	out := []alert.Socket{}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		for _, protocol := range []uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			states := uint32(1 << stateListen)
			if !listening {
				states |= 1 << stateEstablished
			}
			if protocol == unix.IPPROTO_UDP {
				if listening {
					continue
				}
				states = 1 << stateEstablished
			}
			if out, err = dumpOne(fd, family, protocol, states, out); err != nil {
				return nil, fmt.Errorf("sock_diag: %w", err)
			}
		}
	}
	return out, nil
}

func dumpOne(fd int, family, protocol uint8, states uint32, out []alert.Socket) ([]alert.Socket, error) {
	request := make([]byte, requestSize)
	order := binary.NativeEndian
	order.PutUint32(request, requestSize)
	order.PutUint16(request[4:], sockDiagByFamily)
	order.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request[headerSize], request[headerSize+1] = family, protocol
	order.PutUint32(request[headerSize+4:], states)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return out, err
	}
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return out, err
		}
		done, err := takeMessages(buf[:n], protocol, &out)
		if err != nil || done {
			return out, err
		}
	}
}

// takeMessages reads the messages of one datagram; done is true at the last.
func takeMessages(data []byte, protocol uint8, out *[]alert.Socket) (done bool, err error) {
	order := binary.NativeEndian
	for len(data) >= headerSize {
		size, kind := int(order.Uint32(data)), order.Uint16(data[4:])
		if size < headerSize || size > len(data) {
			return false, unix.EBADMSG
		}
		body := data[headerSize:size]
		switch kind {
		case unix.NLMSG_DONE:
			return true, nil
		case unix.NLMSG_ERROR:
			if len(body) >= 4 && order.Uint32(body) != 0 {
				return true, unix.Errno(-int32(order.Uint32(body)))
			}
			return true, nil
		default:
			if s, ok := parseMessage(body, protocol); ok {
				*out = append(*out, s)
			}
		}
		data = data[min((size+3)&^3, len(data)):]
	}
	return false, nil
}

// parseMessage reads an inet_diag_msg.
func parseMessage(b []byte, protocol uint8) (alert.Socket, bool) {
	if len(b) < messageSize {
		return alert.Socket{}, false
	}
	order := binary.NativeEndian
	address := func(at int) netip.Addr {
		if b[0] == unix.AF_INET6 {
			return netip.AddrFrom16([16]byte(b[at : at+16]))
		}
		return netip.AddrFrom4([4]byte(b[at : at+4]))
	}
	return alert.Socket{
		UDP:         protocol == unix.IPPROTO_UDP,
		Listening:   b[1] == stateListen,
		Established: b[1] == stateEstablished,
		Local:       netip.AddrPortFrom(address(8), binary.BigEndian.Uint16(b[4:])),
		Remote:      netip.AddrPortFrom(address(24), binary.BigEndian.Uint16(b[6:])),
		UID:         order.Uint32(b[64:]),
		Inode:       uint64(order.Uint32(b[68:])),
	}, true
}
