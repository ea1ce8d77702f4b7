import type { NodeFigures, StepFigures } from './nodes.ts';
import type { BenchReport, ModelFigures } from './report.ts';
import { digits, megabytes, percent, table } from './table.ts';

/** Nodes below this share of a step are printed as one row. */
const minShare = 0.01;

/** The figures of one model as text, at most 100 columns wide. */
export function modelText(figures: ModelFigures): string {
  const { load, copyBandwidth } = figures;
  const stages = Object.entries(load.stages).map(([stage, ms]) => `${stage} ${ms}`);
  const weights = figures.randomWeights ? ', random weights' : '';
  return [
    `${figures.model}: ${figures.architecture} ${figures.quantization}, ${megabytes(figures.parameters)} M parameters${weights}`,
    `load ${load.warmMs} ms (${stages.join(', ')}; first in this process ${load.firstMs})`,
    `other processes kept ${digits(figures.othersCores)} cores busy`,
    `copy bandwidth ${digits(copyBandwidth.bytesPerSecond / 1e9)} GB/s (${copyBandwidth.method}, read + written)`,
    '',
    table(
      ['context', 'first token ms', 'prefill t/s', 'decode t/s', 'dispatches', 'MB/token', 'of copy'],
      figures.contexts.map((one) => [
        String(one.context),
        digits(one.firstTokenMs),
        digits(one.prefillTokensPerSecond),
        digits(one.decodeTokensPerSecond),
        String(one.dispatchesPerToken),
        megabytes(one.bytesPerToken.weights + one.bytesPerToken.cache),
        percent(one.partOfCopyBandwidth),
      ]),
    ),
    ...figures.steps.map((step) => `\n${stepText(step)}`),
    ...growthText(figures),
  ].join('\n');
}

/** Growth of cost with parallel answers, a cached prefix and the context. */
function growthText({ streams, prefix, growth, memory }: ModelFigures): string[] {
  const parts: string[] = [];
  const single = streams.find((one) => one.streams === 1)?.tokensPerSecond;
  if (single !== undefined) {
    const rows = streams.map((one) => [
      String(one.streams),
      digits(one.tokensPerSecond),
      digits(one.tokensPerSecond / single),
    ]);
    parts.push(table(['parallel answers', 'total t/s', 'vs. one'], rows));
  }
  if (prefix) {
    parts.push(
      `${prefix.prefixTokens} + ${prefix.questionTokens} prompt tokens to the first token: ` +
        `cold ${digits(prefix.coldMs)} ms, cached prefix ${digits(prefix.repeatedMs)} ms ` +
        `(${percent(prefix.repeatedMs / prefix.coldMs)}; ${prefix.cachedTokens} tokens from the cache)`,
    );
  }
  if (growth.length > 0) {
    const rows = growth.map((one) => [
      String(one.context),
      digits(one.decodeTokensPerSecond),
      digits(one.encodeMs),
      one.attentionMs === undefined ? '' : digits(one.attentionMs),
      one.attentionGflops === undefined ? '' : digits(one.attentionGflops),
    ]);
    const head = ['after tokens', 'decode t/s', 'encode ms', 'attention ms', 'attention GFLOP/s'];
    parts.push(table(head, rows));
  }
  if (memory.length > 0) {
    const rows = memory.map((one) => [
      String(one.context),
      megabytes(one.cacheBytes),
      megabytes(one.workBytes),
    ]);
    parts.push(table(['context', 'KV cache MB', 'work buffers MB'], rows));
  }
  return parts.map((part) => `\n${part}`);
}

/** The figures of the host, and all figures with a goal. */
export function figuresText({ overhead, startUp, figures }: Omit<BenchReport, 'models'>): string {
  const lines: string[] = [];
  if (overhead) {
    lines.push(
      `host overhead: ${digits(overhead.cpuMsPerToken)} ms of processor time per token ` +
        `(${overhead.answerTokens} streamed after ${overhead.promptTokens}, request included), ` +
        `${digits(overhead.wallMsPerToken)} ms at the client; a request for one token ${digits(overhead.cpuMsPerRequest)} ms`,
    );
  }
  if (startUp) {
    lines.push(
      `process start to ready ${startUp.readyMs} ms, to the first text of an answer ${startUp.firstTextMs} ms`,
    );
  }
  const rows = figures.map((one) => [
    one.figure,
    digits(one.ours),
    one.peer === undefined ? '' : digits(one.peer),
    digits(one.ratio),
    `${one.wanted} ${one.goal}`,
    one.met ? 'yes' : 'no',
  ]);
  if (rows.length > 0)
    lines.push('', table(['figure', 'ours', 'compared with', 'ratio', 'goal', 'met'], rows), '');
  return lines.join('\n');
}

function stepText(step: StepFigures): string {
  const subject =
    step.phase === 'decode' ? `a token after ${step.context}` : `a step of ${step.tokens} prompt tokens`;
  const shown = step.nodes.filter((node) => node.share >= minShare);
  const rest = step.nodes.filter((node) => node.share < minShare);
  const row = (node: NodeFigures) => [
    node.node,
    node.op,
    String(node.dispatches),
    digits(node.ms),
    percent(node.share),
    node.gflops > 0 ? digits(node.gflops) : '',
    node.gigabytes > 0 ? digits(node.gigabytes) : '',
  ];
  const others = rest.length > 0 ? [sumOthers(rest)] : [];
  return [
    `GPU time of ${subject}: ${digits(step.gpuMs)} ms in ${step.dispatches} dispatches`,
    table(['node', 'op', 'dispatches', 'ms', 'share', 'GFLOP/s', 'GB/s'], [...shown, ...others].map(row)),
  ].join('\n');
}

function sumOthers(nodes: readonly NodeFigures[]): NodeFigures {
  const sumOf = (valueOf: (node: NodeFigures) => number) =>
    nodes.reduce((all, node) => all + valueOf(node), 0);
  return {
    node: `(${nodes.length} others)`,
    op: '',
    dispatches: sumOf((node) => node.dispatches),
    ms: sumOf((node) => node.ms),
    share: sumOf((node) => node.share),
    gflops: 0,
    gigabytes: 0,
  };
}

export function headText(report: Omit<BenchReport, 'models'>): string {
  const { adapter, machine, versions, loadAverage } = report;
  return [
    `lathe ${versions.lathe} on ${adapter.description} (${adapter.backend}${adapter.software ? ', software' : ''})`,
    `${machine.cpu}, ${machine.cores} cores${machine.vectors ? `, ${machine.vectors}` : ''}; node ${versions.node}, ` +
      `load average ${loadAverage.before} before, ${loadAverage.after} after; ${report.date.slice(0, 10)}`,
  ].join('\n');
}
