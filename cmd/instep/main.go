// Command instep publishes sets of web resources, mirrors them, keeps the mirrors in
// step and proves that they are: the ResourceSync Framework (ANSI/NISO Z39.99) in one
// program.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
