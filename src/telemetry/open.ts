import type { RackId, TraceSink } from '../tracing/index.ts';
import { type Environment, readTelemetrySettings } from './settings.ts';

export interface TelemetryOptions {
  /** Value of `--otlp-endpoint`. */
  readonly endpoint?: string | undefined;
  readonly env: Environment;
  readonly version: string;
  /** Identifies this host among others. */
  readonly instanceId: string;
  /** Whether content of a rack may be exported now. Called often, so it must be fast. */
  readonly contentAllowed: (rack: RackId) => boolean;
  /** Redacts a text before it is exported. */
  readonly redact: (text: string, rack: RackId) => string;
  /** Called with messages for the operator. */
  readonly onNotice: (message: string) => void;
}

export interface Telemetry {
  readonly sink: TraceSink;
  /** Sends the remaining data. Takes at most 2 s and never rejects. */
  close(): Promise<void>;
}

/**
 * Starts OpenTelemetry export if a collector is configured; otherwise its SDK is not loaded.
 * @throws UsageError for invalid environment variables
 */
export async function openTelemetry(options: TelemetryOptions): Promise<Telemetry | undefined> {
  const settings = readTelemetrySettings(options.endpoint, options.env);
  if (settings === undefined) return undefined;
  const { startExporting } = await import('./otlp/start.ts');
  return startExporting(settings, options);
}
