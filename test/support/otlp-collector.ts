/** A stand-in for an OpenTelemetry collector: takes OTLP over HTTP as JSON, and misbehaves on request. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';

type Json = Record<string, unknown>;
type AnyValue = {
  stringValue?: string;
  boolValue?: boolean;
  intValue?: number | string;
  doubleValue?: number;
  arrayValue?: { values?: AnyValue[] };
};
type KeyValues = readonly { readonly key: string; readonly value: AnyValue }[];

export interface SeenSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  /** 1 internal, 2 server, 3 client. */
  readonly kind: number;
  /** Trace flags; 0x200: the parent is in another process. */
  readonly flags: number;
  readonly seconds: number;
  readonly attributes: Json;
  /** 0 unset, 2 error. */
  readonly status: { readonly code: number; readonly message?: string };
  readonly events: readonly unknown[];
  readonly resource: Json;
}

export interface SeenPoint {
  readonly attributes: Json;
  readonly count?: number;
  readonly sum?: number;
  readonly value?: number;
  readonly bounds?: readonly number[];
}
export interface SeenMetric {
  readonly name: string;
  readonly unit: string;
  readonly points: readonly SeenPoint[];
}

export interface SeenRequest {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  /** As they came, unpacked. */
  readonly bytes: Buffer;
}

type Answer = (response: ServerResponse) => void;
const accepted: Answer = (response) => {
  response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
};

export class OtlpCollector {
  readonly requests: SeenRequest[] = [];
  /** How it answers. */
  answer: Answer = accepted;
  readonly #server = createServer((request, response) => void this.#take(request, response));

  static async open(): Promise<OtlpCollector> {
    const collector = new OtlpCollector();
    await new Promise<void>((resolve) => collector.#server.listen(0, '127.0.0.1', resolve));
    return collector;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Everything that was ever sent to it, headers too. */
  get allBytes(): string {
    return this.requests
      .map(({ path, headers, bytes }) => `${path} ${JSON.stringify(headers)} ${bytes.toString()}`)
      .join('\n');
  }

  spans(): SeenSpan[] {
    return this.#bodies('/v1/traces').flatMap((body) =>
      list(body['resourceSpans']).flatMap(({ resource, scopeSpans }) =>
        list(scopeSpans).flatMap(({ spans }) => list(spans).map((span) => spanOf(span, resource as Json))),
      ),
    );
  }

  /** The metrics of the last export. */
  metrics(): Map<string, SeenMetric> {
    const last = this.#bodies('/v1/metrics').at(-1) ?? {};
    const metrics = list(last['resourceMetrics']).flatMap(({ scopeMetrics }) =>
      list(scopeMetrics).flatMap((scoped) => list(scoped['metrics']).map(metricOf)),
    );
    return new Map(metrics.map((metric) => [metric.name, metric]));
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #bodies(path: string): Json[] {
    return this.requests
      .filter((request) => request.path === path)
      .map(({ bytes }) => JSON.parse(bytes.toString()) as Json);
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { url: path = '', headers } = request;
    const body = await buffer(request).catch(() => Buffer.alloc(0));
    const bytes = headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
    this.requests.push({ path, headers, bytes });
    this.answer(response);
  }
}

const list = (value: unknown): Json[] => (value ?? []) as Json[];

function spanOf(span: Json, resource: Json): SeenSpan {
  const at = (name: string) => Number(BigInt(span[name] as string)) / 1e9;
  return {
    ...(span as unknown as SeenSpan),
    parentSpanId: (span['parentSpanId'] as string | undefined) || undefined,
    seconds: at('endTimeUnixNano') - at('startTimeUnixNano'),
    attributes: read(span['attributes'] as KeyValues),
    resource: read(resource['attributes'] as KeyValues),
    events: list(span['events']),
  };
}

function metricOf(metric: Json): SeenMetric {
  const { dataPoints } = (metric['histogram'] ?? metric['sum']) as { dataPoints: Json[] };
  return {
    name: metric['name'] as string,
    unit: metric['unit'] as string,
    points: dataPoints.map((point) => ({
      attributes: read(point['attributes'] as KeyValues),
      ...(point['count'] === undefined ? {} : { count: Number(point['count']) }),
      ...(point['sum'] === undefined ? {} : { sum: Number(point['sum']) }),
      ...(point['asInt'] === undefined ? {} : { value: Number(point['asInt']) }),
      ...(point['explicitBounds'] === undefined ? {} : { bounds: point['explicitBounds'] as number[] }),
    })),
  };
}

const read = (pairs: KeyValues = []): Json =>
  Object.fromEntries(pairs.map(({ key, value }) => [key, valueOf(value)]));

function valueOf(value: AnyValue): unknown {
  if (value.intValue !== undefined) return Number(value.intValue);
  if (value.arrayValue) return (value.arrayValue.values ?? []).map(valueOf);
  return value.stringValue ?? value.boolValue ?? value.doubleValue;
}
