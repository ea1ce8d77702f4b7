import { type Attributes, type Counter, type Histogram, type Meter, ValueType } from '@opentelemetry/api';
import type { FactsOf, Sink, Work, WorkKind } from '../../watch/index.ts';
import { errorTypeOf } from '../endings.ts';
import { LabelNames } from '../names.ts';
import { ownProvider, providerName } from '../providers.ts';
import { providerOf } from '../spans.ts';
import { perOutputTokenMs } from '../pace.ts';

/** Bucket boundaries of the GenAI semantic conventions, in seconds. */
const durations = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const firstTokens = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const perToken = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5];
/** Bucket boundaries in tokens. */
const usages = Array.from({ length: 14 }, (_, power) => 4 ** power);

/** Exports the metrics of the GenAI semantic conventions, and the gateway's cost. */
export class MetricSink implements Sink {
  readonly #requests: Histogram;
  readonly #firstTokens: Histogram;
  readonly #perToken: Histogram;
  readonly #operations: Histogram;
  readonly #tokens: Histogram;
  readonly #cost: Counter;
  readonly #models = new LabelNames();

  constructor(meter: Meter) {
    const seconds = (name: string, description: string, explicitBucketBoundaries: number[]) =>
      meter.createHistogram(name, { description, unit: 's', advice: { explicitBucketBoundaries } });
    this.#requests = seconds('gen_ai.server.request.duration', 'Duration of requests.', durations);
    this.#firstTokens = seconds(
      'gen_ai.server.time_to_first_token',
      'Time to the first token of successful requests.',
      firstTokens,
    );
    this.#perToken = seconds(
      'gen_ai.server.time_per_output_token',
      'Time per output token after the first, of successful requests.',
      perToken,
    );
    this.#operations = seconds('gen_ai.client.operation.duration', 'Duration of operations.', durations);
    this.#tokens = meter.createHistogram('gen_ai.client.token.usage', {
      description: 'Input and output tokens.',
      unit: '{token}',
      valueType: ValueType.INT,
      advice: { explicitBucketBoundaries: usages },
    });
    this.#cost = meter.createCounter('lathe.gateway.cost', {
      description: 'Cost of gateway requests, in nanodollars (1e-9 USD).',
      unit: '{nanousd}',
      valueType: ValueType.INT,
    });
  }

  readonly ended = (work: Work): void => {
    const { kind } = work;
    if (isOf(work, 'completion')) {
      const { facts } = work;
      this.#served(work, this.#attributes(work, ownProvider, facts.requestedModel, facts.model));
    } else if (isOf(work, 'gateway')) {
      const { facts } = work;
      const provider = providerName(facts.provider);
      const attributes = this.#attributes(work, provider, facts.requestedModel, facts.effectiveModel);
      this.#served(work, attributes);
      if (facts.costNanousd !== undefined && facts.costNanousd > 0n)
        this.#cost.add(Number(facts.costNanousd), attributes);
    } else if (isOf(work, 'turn')) {
      const attributes = this.#attributes(work, providerOf(work.facts), work.facts.model, undefined);
      this.#took(work, attributes);
      this.#used(work.facts, attributes);
    } else if (isOf(work, 'task')) {
      this.#took(work, this.#attributes(work, providerOf(work.facts), work.facts.model, undefined));
    } else if (kind === 'tool') {
      this.#took(work, this.#attributes(work, ownProvider, undefined, undefined));
    }
  };

  #served(work: Work<'completion'> | Work<'gateway'>, attributes: Attributes): void {
    const { facts, totalMs = 0, ending } = work;
    this.#requests.record(totalMs / 1000, attributes);
    this.#used(facts, attributes);
    if (ending?.outcome !== 'ok' || facts.firstTokenMs === undefined) return;
    this.#firstTokens.record(facts.firstTokenMs / 1000, attributes);
    const paceMs = perOutputTokenMs(work);
    if (paceMs !== undefined) this.#perToken.record(paceMs / 1000, attributes);
  }

  #took({ totalMs = 0 }: Work, attributes: Attributes): void {
    this.#operations.record(totalMs / 1000, attributes);
  }

  #used(
    { promptTokens, completionTokens }: { promptTokens?: number; completionTokens?: number },
    attributes: Attributes,
  ): void {
    const { 'error.type': _, ...of } = attributes;
    if (promptTokens !== undefined)
      this.#tokens.record(promptTokens, { ...of, 'gen_ai.token.type': 'input' });
    if (completionTokens !== undefined)
      this.#tokens.record(completionTokens, { ...of, 'gen_ai.token.type': 'output' });
  }

  #attributes(
    work: Work,
    provider: string,
    requested: string | undefined,
    answering: string | undefined,
  ): Attributes {
    const { ending } = work;
    const error = ending && errorTypeOf(ending);
    // A caller may request any name. Only a name that was not refused is known to be a model.
    const refused = ending?.outcome === 'refused';
    const named = (model: string) => (refused ? this.#models.ofClaimed(model) : this.#models.of(model));
    return {
      'gen_ai.operation.name': operationOf(work),
      'gen_ai.provider.name': provider,
      ...(requested === undefined ? {} : { 'gen_ai.request.model': named(requested) }),
      ...(answering === undefined ? {} : { 'gen_ai.response.model': named(answering) }),
      ...(error === undefined ? {} : { 'error.type': error }),
    };
  }
}

const isOf = <K extends WorkKind>(work: Work, kind: K): work is Work<K> & Work => work.kind === kind;

function operationOf({ kind, facts }: Work): string {
  if (kind === 'task') return 'invoke_agent';
  if (kind === 'tool') return 'execute_tool';
  return kind === 'turn' ? 'chat' : (facts as FactsOf['completion']).operation;
}
