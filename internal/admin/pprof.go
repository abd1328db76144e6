package admin

import (
	"fmt"
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"
)

// Profiles of a stretch of time.
const (
	standardProfile = 30 * time.Second
	maxProfile      = time.Minute
)

// profiles serves what `go tool pprof` and `go tool trace` read. It is not
// net/http/pprof, which would also add itself to the default mux of a team's own
// program, and tell the command line, where passwords may be.
func profiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/{$}", listProfiles)
	mux.HandleFunc("GET /debug/pprof/{name}", namedProfile)
	mux.HandleFunc("GET /debug/pprof/profile", func(w http.ResponseWriter, r *http.Request) {
		record(w, r, func() error { return pprof.StartCPUProfile(w) }, pprof.StopCPUProfile)
	})
	mux.HandleFunc("GET /debug/pprof/trace", func(w http.ResponseWriter, r *http.Request) {
		record(w, r, func() error { return trace.Start(w) }, trace.Stop)
	})
}

func listProfiles(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "profile?seconds=30\ntrace?seconds=1")
	for _, profile := range pprof.Profiles() {
		fmt.Fprintln(w, profile.Name())
	}
}

func namedProfile(w http.ResponseWriter, r *http.Request) {
	profile := pprof.Lookup(r.PathValue("name"))
	if profile == nil {
		http.Error(w, "there is no such profile", http.StatusNotFound)
		return
	}
	debug, _ := strconv.Atoi(r.FormValue("debug")) // 0 is the form for tools
	contentType := "application/octet-stream"
	if debug > 0 {
		contentType = "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", contentType)
	_ = profile.WriteTo(w, debug) // who asked may be gone
}

// record writes what happens until the time is over, or who asked is gone. The
// runtime records once at a time.
func record(w http.ResponseWriter, r *http.Request, start func() error, stop func()) {
	length := standardProfile
	if text := r.FormValue("seconds"); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		length = time.Duration(seconds * float64(time.Second))
		if err != nil || length <= 0 || length > maxProfile {
			http.Error(w, fmt.Sprintf("seconds: want more than 0 and at most %.0f", maxProfile.Seconds()), http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := start(); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer stop()
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}
