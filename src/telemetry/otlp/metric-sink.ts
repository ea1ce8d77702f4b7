import { type Attributes, type Counter, type Histogram, type Meter, ValueType } from '@opentelemetry/api';
import type { SpanAttributes, TraceSink, TraceSpan, TraceSpanKind } from '../../tracing/index.ts';
import { errorTypeOf } from '../error-type.ts';
import { LabelNames } from '../label-names.ts';
import { residentProvider, toProviderName } from '../providers.ts';
import { providerOf } from '../spans.ts';
import { perOutputTokenMs } from '../per-output-token.ts';

/** Bucket boundaries of the GenAI semantic conventions, in seconds. */
const durationBuckets = [
  0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];
const firstTokens = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const perTokenBuckets = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5];
/** Bucket boundaries in tokens. */
const tokenBuckets = Array.from({ length: 14 }, (_, power) => 4 ** power);

/** Exports the metrics of the GenAI semantic conventions, and the gateway's cost. */
export class MetricSink implements TraceSink {
  readonly #requests: Histogram;
  readonly #firstTokens: Histogram;
  readonly #timePerToken: Histogram;
  readonly #operations: Histogram;
  readonly #tokens: Histogram;
  readonly #cost: Counter;
  readonly #models = new LabelNames();

  constructor(meter: Meter) {
    const seconds = (name: string, description: string, explicitBucketBoundaries: number[]) =>
      meter.createHistogram(name, { description, unit: 's', advice: { explicitBucketBoundaries } });
    this.#requests = seconds('gen_ai.server.request.duration', 'Duration of requests.', durationBuckets);
    this.#firstTokens = seconds(
      'gen_ai.server.time_to_first_token',
      'Time to the first token of successful requests.',
      firstTokens,
    );
    this.#timePerToken = seconds(
      'gen_ai.server.time_per_output_token',
      'Time per output token after the first, of successful requests.',
      perTokenBuckets,
    );
    this.#operations = seconds(
      'gen_ai.client.operation.duration',
      'Duration of operations.',
      durationBuckets,
    );
    this.#tokens = meter.createHistogram('gen_ai.client.token.usage', {
      description: 'Input and output tokens.',
      unit: '{token}',
      valueType: ValueType.INT,
      advice: { explicitBucketBoundaries: tokenBuckets },
    });
    this.#cost = meter.createCounter('lathe.gateway.cost', {
      description: 'Cost of gateway requests, in nanodollars (1e-9 USD).',
      unit: '{nanousd}',
      valueType: ValueType.INT,
    });
  }

  readonly onEnd = (traceSpan: TraceSpan): void => {
    const { kind } = traceSpan;
    if (isKind(traceSpan, 'completion')) {
      const { attributes: facts } = traceSpan;
      this.#recordRequest(
        traceSpan,
        this.#attributesOf(traceSpan, residentProvider, facts.requestedModel, facts.model),
      );
    } else if (isKind(traceSpan, 'gateway')) {
      const { attributes: facts } = traceSpan;
      const provider = toProviderName(facts.provider);
      const attributes = this.#attributesOf(traceSpan, provider, facts.requestedModel, facts.effectiveModel);
      this.#recordRequest(traceSpan, attributes);
      if (facts.costNanousd !== undefined && facts.costNanousd > 0n)
        this.#cost.add(Number(facts.costNanousd), attributes);
    } else if (isKind(traceSpan, 'turn')) {
      const attributes = this.#attributesOf(
        traceSpan,
        providerOf(traceSpan.attributes),
        traceSpan.attributes.model,
        undefined,
      );
      this.#recordOperation(traceSpan, attributes);
      this.#recordTokens(traceSpan.attributes, attributes);
    } else if (isKind(traceSpan, 'task')) {
      this.#recordOperation(
        traceSpan,
        this.#attributesOf(
          traceSpan,
          providerOf(traceSpan.attributes),
          traceSpan.attributes.model,
          undefined,
        ),
      );
    } else if (kind === 'tool') {
      this.#recordOperation(traceSpan, this.#attributesOf(traceSpan, residentProvider, undefined, undefined));
    }
  };

  #recordRequest(traceSpan: TraceSpan<'completion'> | TraceSpan<'gateway'>, attributes: Attributes): void {
    const { attributes: facts, totalMs = 0, result } = traceSpan;
    this.#requests.record(totalMs / 1000, attributes);
    this.#recordTokens(facts, attributes);
    if (result?.outcome !== 'ok' || facts.firstTokenMs === undefined) return;
    this.#firstTokens.record(facts.firstTokenMs / 1000, attributes);
    const perTokenMs = perOutputTokenMs(traceSpan);
    if (perTokenMs !== undefined) this.#timePerToken.record(perTokenMs / 1000, attributes);
  }

  #recordOperation({ totalMs = 0 }: TraceSpan, attributes: Attributes): void {
    this.#operations.record(totalMs / 1000, attributes);
  }

  #recordTokens(
    { promptTokens, completionTokens }: { promptTokens?: number; completionTokens?: number },
    attributes: Attributes,
  ): void {
    const { 'error.type': _, ...of } = attributes;
    if (promptTokens !== undefined)
      this.#tokens.record(promptTokens, { ...of, 'gen_ai.token.type': 'input' });
    if (completionTokens !== undefined)
      this.#tokens.record(completionTokens, { ...of, 'gen_ai.token.type': 'output' });
  }

  #attributesOf(
    traceSpan: TraceSpan,
    provider: string,
    requestedModel: string | undefined,
    responseModel: string | undefined,
  ): Attributes {
    const { result } = traceSpan;
    const error = result && errorTypeOf(result);
    // A caller may request any name. Only a name that was not refused is known to be a model.
    const refused = result?.outcome === 'refused';
    const modelLabel = (model: string) =>
      refused ? this.#models.labelOfUnverified(model) : this.#models.labelOf(model);
    return {
      'gen_ai.operation.name': operationOf(traceSpan),
      'gen_ai.provider.name': provider,
      ...(requestedModel === undefined ? {} : { 'gen_ai.request.model': modelLabel(requestedModel) }),
      ...(responseModel === undefined ? {} : { 'gen_ai.response.model': modelLabel(responseModel) }),
      ...(error === undefined ? {} : { 'error.type': error }),
    };
  }
}

const isKind = <K extends TraceSpanKind>(
  traceSpan: TraceSpan,
  kind: K,
): traceSpan is TraceSpan<K> & TraceSpan => traceSpan.kind === kind;

function operationOf({ kind, attributes: facts }: TraceSpan): string {
  if (kind === 'task') return 'invoke_agent';
  if (kind === 'tool') return 'execute_tool';
  return kind === 'turn' ? 'chat' : (facts as SpanAttributes['completion']).operation;
}
