/**
 * `node bench/plots.ts REPORT.json FOLDER`: draws charts of how cost grows, from a report of `npm run bench -- --json`
 * or of a GPU machine (bench/gpu/run.ts).
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { type Chart, chartSvg } from './chart.ts';
import type { GpuReport } from './gpu/gpu-report.ts';
import type { BenchReport, ModelFigures } from './report.ts';

/** The charts for which a report has data, by file name. */
export function chartsOf(report: BenchReport): Map<string, Chart> {
  const { models } = report;
  const subtitle = subtitleOf(report);
  const charts = new Map<string, Chart>();
  const add = (name: string, chart: Omit<Chart, 'subtitle'>) => {
    if (chart.series.length > 0) charts.set(`${name}.svg`, { ...chart, subtitle });
  };
  /** One line per model in the model's color; models without the data are left out. */
  const lines = (points: (model: ModelFigures) => { x: number; y: number }[], suffix = '') =>
    models
      .map((model, color) => ({ name: `${model.model}${suffix}`, points: points(model), color }))
      .filter((one) => one.points.length > 1);

  const contexts = [...new Set(models.flatMap(({ growth }) => growth.map((one) => one.context)))].sort(
    (a, b) => a - b,
  );
  add('tokens-over-context', {
    title: 'Decode rate after a context',
    x: { label: 'tokens before the decoded one', scale: 'log', ticks: contexts, format: String },
    y: { label: 'tokens/s', scale: 'log', format: formatPlain },
    series: lines(({ growth }) => growth.map((one) => ({ x: one.context, y: one.decodeTokensPerSecond }))),
  });
  const counts = [...new Set(models.flatMap(({ streams }) => streams.map((one) => one.streams)))].sort(
    (a, b) => a - b,
  );
  add('tokens-over-streams', {
    title: 'Total decode rate of parallel answers',
    x: { label: 'parallel answers', scale: 'log', ticks: counts, format: String },
    y: { label: 'tokens/s', scale: 'log', format: formatPlain },
    series: lines(({ streams }) => streams.map((one) => ({ x: one.streams, y: one.tokensPerSecond }))),
  });
  const modelPoints = models.flatMap((model) => {
    const decode = model.contexts.find(({ context }) => context === 128);
    return decode ? [{ x: model.parameters / 1e6, y: decode.decodeTokensPerSecond, label: model.model }] : [];
  });
  add('tokens-over-model-size', {
    title: 'Decode rate by model size, after 128 tokens',
    x: { label: 'million parameters', scale: 'log', format: formatPlain },
    y: { label: 'tokens/s', scale: 'log', format: formatPlain },
    // Each model is a separate point, because their formats differ.
    series: modelPoints.map((point, color) => {
      const below = modelPoints.some(({ x, y }) => x === point.x && y > point.y);
      return { name: '', points: [{ ...point, below }], color };
    }),
  });
  const memory = models.flatMap((one) => one.memory.map(({ context }) => context));
  add('memory-over-context', {
    title: 'GPU memory of one sequence; dashed: work buffers',
    x: { label: 'tokens of context', scale: 'linear', ticks: quarters(memory), format: String },
    y: { label: 'MB', scale: 'linear', format: formatPlain },
    series: uniqueShapes(models).flatMap(({ model, color }) => [
      {
        name: model.model.replace(/-(q4_0|q8_0|f16)$/, ''),
        color,
        points: model.memory.map((one) => ({ x: one.context, y: one.cacheBytes / 1e6 })),
      },
      {
        name: '',
        color,
        dashed: true,
        points: model.memory.map((one) => ({ x: one.context, y: one.workBytes / 1e6 })),
      },
    ]),
  });
  return charts;
}

/** Quarters of the largest value. */
const quarters = (values: readonly number[]): number[] =>
  [0, 0.25, 0.5, 0.75, 1].map((fraction) => fraction * Math.max(...values));

/** One model per memory curve: the chart has no weights, so models that differ only in those are equal. */
function uniqueShapes(models: readonly ModelFigures[]): { model: ModelFigures; color: number }[] {
  const seen = new Map<string, { model: ModelFigures; color: number }>();
  models.forEach((model, color) => {
    const key = JSON.stringify(model.memory);
    if (model.memory.length > 1 && !seen.has(key)) seen.set(key, { model, color });
  });
  return [...seen.values()];
}

function subtitleOf({ adapter, machine, date }: BenchReport): string {
  return `${adapter.description} (${adapter.backend}) - ${machine.cpu}, ${machine.cores} cores - ${date.slice(0, 10)}`;
}

const formatPlain = (value: number): string => Number(value.toPrecision(6)).toLocaleString('en');

async function main(file: string, folder: string): Promise<void> {
  const read = JSON.parse(await readFile(file, 'utf8')) as BenchReport | Pick<GpuReport, 'bench'>;
  const report = 'models' in read ? read : read.bench;
  if (!report) throw new Error(`${file} has no figures of a bench`);
  await mkdir(folder, { recursive: true });
  for (const [name, chart] of chartsOf(report)) {
    await writeFile(join(folder, name), chartSvg(chart));
    console.log(join(folder, name));
  }
}

if (process.argv[1] !== undefined && basename(process.argv[1]) === 'plots.ts') {
  const [file, folder] = process.argv.slice(2);
  if (file === undefined || folder === undefined) {
    console.error('usage: node bench/plots.ts REPORT.json FOLDER');
    process.exitCode = 1;
  } else {
    await main(file, folder);
  }
}
