// Package fleettest gives the tests of fleet a real sshd on loopback, with keys, a
// configuration and homes of its own, and removes all of it afterwards; a tool
// server that is easy to provoke; and hostile far sides. It is for tests only.
package fleettest
