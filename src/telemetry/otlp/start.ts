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
import type { Sink, Work } from '../../watch/index.ts';
import type { Telemetry, TelemetryOptions } from '../open.ts';
import type { Destination, TelemetrySettings } from '../settings.ts';
import { MetricSink } from './metric-sink.ts';
import { Outage } from './outage.ts';
import { SpanSink } from './span-sink.ts';

const scope = 'lathe';
/** Time limit of closing, in ms. */
const closeMs = 2000;
/** Limits of queued spans, and of spans in one export request. */
const [mostWaiting, mostTogether] = [1024, 256];
/** Limit of concurrent export requests: on close, the whole queue is sent in addition to the running request. */
const mostRequests = mostWaiting / mostTogether + 1;
const exportMs = 10_000;

interface Exporting {
  readonly sink: Sink;
  readonly close: () => Promise<void>;
}

export function startExporting(settings: TelemetrySettings, options: TelemetryOptions): Telemetry {
  const resource = resourceFromAttributes({
    'service.name': 'lathe',
    'service.version': options.version,
    'service.instance.id': options.instanceId,
    ...settings.resource,
  });
  const started = [
    settings.traces && startTraces(settings.traces, settings, resource, options),
    settings.metrics && startMetrics(settings.metrics, settings, resource, options),
  ].filter((one) => one !== undefined);
  const guard = guarded(options.onNotice);
  let closed: Promise<unknown> | undefined;
  return {
    sink: {
      keepsTexts: (rack) => started.some(({ sink }) => sink.keepsTexts?.(rack) === true),
      began: guard((work) => {
        for (const { sink } of started) sink.began?.(work);
      }),
      ended: guard((work) => {
        for (const { sink } of started) sink.ended?.(work);
      }),
    },
    close: async () => {
      closed ??= raceTimeout(Promise.allSettled(started.map(({ close }) => close())), closeMs);
      await closed;
    },
  };
}

function startTraces(
  destination: Destination,
  settings: TelemetrySettings,
  resource: Resource,
  { version, contentAllowed, redact, onNotice }: TelemetryOptions,
): Exporting {
  const exporter = new OTLPTraceExporter({ ...to(destination), concurrencyLimit: mostRequests });
  const provider = new TracerProvider({
    resource,
    sampler: samplerOf(settings),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new Outage('traces', destination.url, onNotice).watch(exporter),
        scheduledDelayMillis: settings.traceDelayMs,
        exportTimeoutMillis: exportMs,
        maxQueueSize: mostWaiting,
        maxExportBatchSize: mostTogether,
      }),
    ],
  });
  const sink = new SpanSink({ tracer: provider.getTracer(scope, version), contentAllowed, redact });
  const close = async () => {
    sink.finish();
    // `shutdown` rejects at the first failed request, while others are still running.
    await provider.shutdown().catch(() => undefined);
    await exporter.forceFlush();
  };
  return { sink, close };
}

function startMetrics(
  destination: Destination,
  { metricIntervalMs }: TelemetrySettings,
  resource: Resource,
  { version, onNotice }: TelemetryOptions,
): Exporting {
  const exporter = new OTLPMetricExporter(to(destination));
  const reader = new PeriodicExportingMetricReader({
    exporter: new Outage('metrics', destination.url, onNotice).watch(exporter),
    exportIntervalMillis: metricIntervalMs,
    exportTimeoutMillis: Math.min(exportMs, metricIntervalMs),
  });
  const provider = new MeterProvider({ resource, readers: [reader] });
  return { sink: new MetricSink(provider.getMeter(scope, version)), close: () => provider.shutdown() };
}

const to = ({ url, headers }: Destination) => ({ url, headers: { ...headers } });

function samplerOf({ sampler, ratio }: TelemetrySettings): Sampler {
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
function guarded(onNotice: (message: string) => void): (see: (work: Work) => void) => (work: Work) => void {
  let told = false;
  return (see) => (work) => {
    try {
      see(work);
    } catch (error) {
      if (told) return;
      told = true;
      onNotice(`telemetry: an event could not be recorded: ${errorMessage(error)}`);
    }
  };
}
