package cli

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/waybill-go/waybill/metrics"
)

// maxScrapes is how many scrapes are answered at the same time.
const maxScrapes = 4

// metricsHandler serves what the collector has, beside what every Go program and
// every process has. A part that fails does not take the others with it.
func metricsHandler(collector *metrics.Collector, log *slog.Logger) (http.Handler, error) {
	reg := prometheus.NewRegistry()
	for _, each := range []prometheus.Collector{
		collector, collectors.NewBuildInfoCollector(), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := reg.Register(each); err != nil {
			return nil, err
		}
	}
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
	}), nil
}
