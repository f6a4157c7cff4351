package main

import (
	"runtime"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Args:  exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			a.out.record(&statusRecord{Version: version, Go: runtime.Version()})
			a.out.end(summary{Status: "clean"}, "instep "+version+" "+runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH)
			return nil
		},
	}
}
