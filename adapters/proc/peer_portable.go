//go:build !linux

package proc

import (
	"errors"
	"net/netip"
)

// Peers is not supported on this system.
func Peers(netip.AddrPort, netip.AddrPort) ([]int, error) { return nil, errors.ErrUnsupported }

func variableOf(int, string) (string, error) { return "", errors.ErrUnsupported }
