/** Everything that needs OpenTelemetry's SDK. Imported with `import()` only, so that it is loaded on demand. */
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { type Resource, resourceFromAttributes } from '@opentelemetry/resources';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { errorMessage } from '../../util/error-message.ts';
import { raceTimeout } from '../../util/race-timeout.ts';
import type { TraceSink, TraceSpan } from '../../tracing/index.ts';
import type { Telemetry, TelemetryOptions } from '../open.ts';
import type { ExportDestination, TelemetrySettings } from '../settings.ts';
import { MetricSink } from './metric-sink.ts';
import { ExportFailureNotifier } from './export-failure-notifier.ts';
import { SpanSink } from './span-sink.ts';

const scope = 'lathe';
/** Time limit of closing, in ms. */
const closeTimeoutMs = 2000;
/** Limits of queued spans, and of spans in one export request. */
const [maxQueuedSpans, maxBatchSpans] = [1024, 256];
/** Limit of concurrent export requests: on close, the whole queue is sent in addition to the running request. */
const maxConcurrentRequests = maxQueuedSpans / maxBatchSpans + 1;
const exportTimeoutMs = 10_000;

interface SignalExporter {
  readonly sink: TraceSink;
  readonly close: () => Promise<void>;
}

export function startExporting(settings: TelemetrySettings, options: TelemetryOptions): Telemetry {
  const resource = resourceFromAttributes({
    'service.name': 'lathe',
    'service.version': options.version,
    'service.instance.id': options.instanceId,
    ...settings.resource,
  });
  const exporters = [
    settings.traces && startTraces(settings.traces, settings, resource, options),
    settings.metrics && startMetrics(settings.metrics, settings, resource, options),
  ].filter((one) => one !== undefined);
  const guard = createGuard(options.onNotice);
  let closed: Promise<unknown> | undefined;
  return {
    sink: {
      wantsTranscript: (rack) => exporters.some(({ sink }) => sink.wantsTranscript?.(rack) === true),
      onStart: guard((traceSpan) => {
        for (const { sink } of exporters) sink.onStart?.(traceSpan);
      }),
      onEnd: guard((traceSpan) => {
        for (const { sink } of exporters) sink.onEnd?.(traceSpan);
      }),
    },
    close: async () => {
      closed ??= raceTimeout(Promise.allSettled(exporters.map(({ close }) => close())), closeTimeoutMs);
      await closed;
    },
  };
}

function startTraces(
  destination: ExportDestination,
  settings: TelemetrySettings,
  resource: Resource,
  { version, contentAllowed, redact, onNotice }: TelemetryOptions,
): SignalExporter {
  const exporter = new OTLPTraceExporter({
    ...exporterOptions(destination),
    concurrencyLimit: maxConcurrentRequests,
  });
  const provider = new TracerProvider({
    resource,
    sampler: createSampler(settings),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new ExportFailureNotifier('traces', destination.url, onNotice).watch(exporter),
        scheduledDelayMillis: settings.traceDelayMs,
        exportTimeoutMillis: exportTimeoutMs,
        maxQueueSize: maxQueuedSpans,
        maxExportBatchSize: maxBatchSpans,
      }),
    ],
  });
  const sink = new SpanSink({ tracer: provider.getTracer(scope, version), contentAllowed, redact });
  const close = async () => {
    sink.flush();
    // `shutdown` rejects at the first failed request, while others are still running.
    await provider.shutdown().catch(() => undefined);
    await exporter.forceFlush();
  };
  return { sink, close };
}

function startMetrics(
  destination: ExportDestination,
  { metricIntervalMs }: TelemetrySettings,
  resource: Resource,
  { version, onNotice }: TelemetryOptions,
): SignalExporter {
  const exporter = new OTLPMetricExporter(exporterOptions(destination));
  const reader = new PeriodicExportingMetricReader({
    exporter: new ExportFailureNotifier('metrics', destination.url, onNotice).watch(exporter),
    exportIntervalMillis: metricIntervalMs,
    exportTimeoutMillis: Math.min(exportTimeoutMs, metricIntervalMs),
  });
  const provider = new MeterProvider({ resource, readers: [reader] });
  return { sink: new MetricSink(provider.getMeter(scope, version)), close: () => provider.shutdown() };
}

const exporterOptions = ({ url, headers }: ExportDestination) => ({ url, headers: { ...headers } });

function createSampler({ sampler, ratio }: TelemetrySettings): Sampler {
  const roots = {
    always_on: () => new AlwaysOnSampler(),
    always_off: () => new AlwaysOffSampler(),
    traceidratio: () => new TraceIdRatioBasedSampler(ratio),
  };
  if (sampler === 'always_on' || sampler === 'always_off' || sampler === 'traceidratio')
    return roots[sampler]();
  const root = sampler.replace('parentbased_', '') as keyof typeof roots;
  return new ParentBasedSampler({ root: roots[root]() });
}

/** Wraps handlers so that their exceptions do not reach the observed work. Only the first is reported. */
function createGuard(
  onNotice: (message: string) => void,
): (handler: (traceSpan: TraceSpan) => void) => (traceSpan: TraceSpan) => void {
  let wasReported = false;
  return (handler) => (traceSpan) => {
    try {
      handler(traceSpan);
    } catch (error) {
      if (wasReported) return;
      wasReported = true;
      onNotice(`telemetry: an event could not be recorded: ${errorMessage(error)}`);
    }
  };
}
