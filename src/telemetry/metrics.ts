import type { GatewayState, TraceSink, TraceSpan, TraceSpanKind } from '../tracing/index.ts';
import type { MetricFamily } from './prometheus-text.ts';
import { countTokens, durationBuckets, GatewayMetrics } from './gateway-metrics.ts';
import { Counter, Histogram } from './instruments.ts';
import { LabelNames } from './label-names.ts';
import { perOutputTokenMs } from './per-output-token.ts';
import { ProcessMetrics } from './process-metrics.ts';

/** Bucket boundaries in seconds. */
const firstTokens = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const perTokenBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 1];

/** Prometheus metrics of the host. They are in memory; the number of label values is bounded. */
export class Metrics implements TraceSink {
  readonly #completions = new Histogram(
    { name: 'lathe_completion_duration_seconds', help: 'Duration of completions.' },
    durationBuckets,
  );
  readonly #firstTokens = new Histogram(
    {
      name: 'lathe_time_to_first_token_seconds',
      help: 'Time to the first token of successful completions.',
    },
    firstTokens,
  );
  readonly #timePerToken = new Histogram(
    {
      name: 'lathe_time_per_output_token_seconds',
      help: 'Time per output token after the first, of successful completions.',
    },
    perTokenBuckets,
  );
  readonly #tokens = new Counter({
    name: 'lathe_completion_usage_tokens_total',
    help: 'Tokens of completions; input includes cached tokens.',
  });
  readonly #turns = new Counter({ name: 'lathe_agent_turns_total', help: "Answers of agents' models." });
  readonly #turnDurations = new Histogram(
    { name: 'lathe_agent_turn_duration_seconds', help: "Duration of answers of agents' models." },
    durationBuckets,
  );
  readonly #turnTokens = new Counter({
    name: 'lathe_agent_tokens_total',
    help: "Tokens of agents' turns.",
  });
  readonly #calls = new Counter({
    name: 'lathe_tool_calls_total',
    help: "Tool calls by agents' models; _OTHER stands for unknown tools and for those beyond the first 200.",
  });
  readonly #tools = new LabelNames();
  readonly #process = new ProcessMetrics();
  /** Metrics of the gateway in this host. */
  readonly gateway = new GatewayMetrics();
  /** State of that gateway; undefined until it is open. */
  gatewayState: (() => GatewayState) | undefined;

  readonly onEnd = (traceSpan: TraceSpan): void => {
    this.gateway.onEnd(traceSpan);
    (this.#observers[traceSpan.kind] as ((traceSpan: TraceSpan) => void) | undefined)?.(traceSpan);
  };

  /** The current metrics. Tasks and runs are counted in the database instead. */
  families(): MetricFamily[] {
    const instruments = [
      this.#completions,
      this.#firstTokens,
      this.#timePerToken,
      this.#tokens,
      this.#turns,
      this.#turnDurations,
      this.#turnTokens,
      this.#calls,
    ];
    return [
      ...instruments.map((one) => one.family()),
      ...this.gateway.families(this.gatewayState?.()),
      ...this.#process.families(),
    ];
  }

  readonly #observers: { readonly [K in TraceSpanKind]?: (traceSpan: TraceSpan<K>) => void } = {
    completion: (traceSpan) => {
      const { attributes: facts, result, totalMs = 0 } = traceSpan;
      const { wire } = facts;
      const outcome = result?.outcome ?? 'failed';
      this.#completions.observe({ wire, outcome }, totalMs / 1000);
      countTokens(this.#tokens, { wire }, facts);
      if (outcome !== 'ok' || facts.firstTokenMs === undefined) return;
      this.#firstTokens.observe({ wire }, facts.firstTokenMs / 1000);
      const perTokenMs = perOutputTokenMs(traceSpan);
      if (perTokenMs !== undefined) this.#timePerToken.observe({ wire }, perTokenMs / 1000);
    },
    turn: ({ attributes: facts, result, totalMs = 0 }) => {
      const { engine } = facts;
      this.#turns.add({ engine, outcome: result?.outcome ?? 'failed' });
      this.#turnDurations.observe({ engine }, totalMs / 1000);
      countTokens(this.#turnTokens, { engine }, facts);
    },
    tool: ({ attributes: facts, result }) => {
      const { tool, toolKind } = facts;
      const label = toolKind === 'unknown' ? this.#tools.labelOfUnverified(tool) : this.#tools.labelOf(tool);
      this.#calls.add({ tool: label, outcome: result?.outcome ?? 'failed' });
    },
  };
}
