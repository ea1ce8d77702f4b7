import type { NodeFigures, StepFigures } from './nodes.ts';
import type { BenchReport, ModelFigures } from './report.ts';
import { digits, megabytes, percent, table } from './table.ts';

/** Nodes below this part of a step are told together. */
const leastShare = 0.01;

/** The figures of one model as text, at most 100 columns wide. */
export function modelText(figures: ModelFigures): string {
  const { load, copyBandwidth } = figures;
  const stages = Object.entries(load.stages).map(([stage, ms]) => `${stage} ${ms}`);
  const weights = figures.randomWeights ? ', random weights' : '';
  return [
    `${figures.model}: ${figures.architecture} ${figures.quantization}, ${megabytes(figures.parameters)} M parameters${weights}`,
    `load ${load.warmMs} ms (${stages.join(', ')}; first in this process ${load.firstMs})`,
    `other processes kept ${digits(figures.othersCores)} cores busy meanwhile`,
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
  ].join('\n');
}

function stepText(step: StepFigures): string {
  const what =
    step.phase === 'decode' ? `a token behind ${step.context}` : `${step.tokens} prompt tokens at once`;
  const shown = step.nodes.filter((node) => node.share >= leastShare);
  const rest = step.nodes.filter((node) => node.share < leastShare);
  const row = (node: NodeFigures) => [
    node.node,
    node.op,
    String(node.dispatches),
    digits(node.ms),
    percent(node.share),
    node.gflops > 0 ? digits(node.gflops) : '',
    node.gigabytes > 0 ? digits(node.gigabytes) : '',
  ];
  const others = rest.length > 0 ? [restOf(rest)] : [];
  return [
    `GPU time of ${what}: ${digits(step.gpuMs)} ms in ${step.dispatches} dispatches`,
    table(['node', 'op', 'dispatches', 'ms', 'share', 'GFLOP/s', 'GB/s'], [...shown, ...others].map(row)),
  ].join('\n');
}

function restOf(nodes: readonly NodeFigures[]): NodeFigures {
  const total = (of: (node: NodeFigures) => number) => nodes.reduce((all, node) => all + of(node), 0);
  return {
    node: `(${nodes.length} others)`,
    op: '',
    dispatches: total((node) => node.dispatches),
    ms: total((node) => node.ms),
    share: total((node) => node.share),
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
