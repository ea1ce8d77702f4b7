import type { RackId, Sink } from '../watch/index.ts';
import { type Environment, readTelemetrySettings } from './settings.ts';

export interface TelemetryOptions {
  /** `--otlp-endpoint`. */
  readonly endpoint?: string | undefined;
  readonly env: Environment;
  readonly version: string;
  /** Of this host among others. */
  readonly instanceId: string;
  /** Whether what is said in a rack's work may leave the host, as things stand. Asked in the middle of the work. */
  readonly contentAllowed: (rack: RackId) => boolean;
  /** What must not leave it even then is taken out of a text. */
  readonly redact: (text: string, rack: RackId) => string;
  /** What an operator should hear of. */
  readonly onNotice: (message: string) => void;
}

export interface Telemetry {
  readonly sink: Sink;
  /** Sends what is left. Takes at most 2 s, whatever the collector does, and never rejects. */
  close(): Promise<void>;
}

/**
 * OpenTelemetry, where a collector is named: its SDK is loaded only then.
 * @throws UsageError where the environment says something that cannot be done
 */
export async function openTelemetry(options: TelemetryOptions): Promise<Telemetry | undefined> {
  const settings = readTelemetrySettings(options.endpoint, options.env);
  if (settings === undefined) return undefined;
  const { startExporting } = await import('./otlp/start.ts');
  return startExporting(settings, options);
}
