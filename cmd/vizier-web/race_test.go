//go:build race

package main

func init() { detector = true }
