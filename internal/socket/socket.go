// Package socket makes Unix sockets that only their owner may connect to. Package wire
// serves clients of this machine on them, package daemon front ends of others.
package socket
