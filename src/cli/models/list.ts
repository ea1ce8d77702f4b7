import { formatBytes } from '../../engine/index.ts';
import { locateModel } from '../model-location.ts';
import { jsonText } from '../../terminal/printable.ts';
import { shortCount } from '../ready-line.ts';
import type { World } from '../world.ts';
import { columns } from './columns.ts';
import { type Inspected, inspectAt } from './open.ts';
import type { PulledModel } from './pulled.ts';

/** Prints one line per model. The line of a model that cannot be used has the reason. */
export async function listModels(
  pulled: readonly PulledModel[],
  { world, json, dataDir }: { world: World; json: boolean; dataDir: string },
): Promise<void> {
  const embedded = await locateModel(undefined, { packageRoot: world.packageRoot, dataDir });
  const models = [
    {
      name: 'lathe-tiny',
      path: embedded.location,
      embedded: true,
      inspected: await inspectAt(world, embedded.location),
    },
  ];
  for (const { name, path, unfinished } of pulled)
    models.push({ name, path, embedded: false, inspected: await inspectPulled(world, path, unfinished) });
  if (json) {
    const entries = models.map(({ inspected, ...model }) => ({ ...model, ...entryOf(inspected) }));
    world.stdout.write(`${jsonText(entries)}\n`);
    return;
  }
  const headings = ['NAME', 'ARCHITECTURE', 'PARAMETERS', 'QUANTIZATION', 'SIZE', 'CONTEXT', 'REMARK'];
  world.stdout.write(
    columns(
      headings,
      models.map(({ name, embedded: own, inspected }) => [name, ...cellsOf(inspected, own)]),
    ),
  );
}

async function inspectPulled(world: World, path: string, unfinished: readonly string[]): Promise<Inspected> {
  if (unfinished.length === 0) return await inspectAt(world, path);
  return {
    problem: `the download is incomplete (${unfinished.join(', ')}); pull it again to resume`,
  };
}

function entryOf(inspected: Inspected) {
  if ('problem' in inspected) return { problem: inspected.problem };
  const { architecture, parameters, quantization, sizeBytes, contextLength, format, problems } =
    inspected.facts;
  return {
    format,
    architecture,
    parameters,
    quantization,
    size_bytes: sizeBytes,
    context_length: contextLength ?? null,
    ...(problems.length > 0 ? { problem: problems.join('; ') } : {}),
  };
}

function cellsOf(inspected: Inspected, embedded: boolean): string[] {
  if ('problem' in inspected) return ['-', '-', '-', '-', '-', `unusable: ${inspected.problem}`];
  const { architecture, parameters, quantization, sizeBytes, contextLength, problems } = inspected.facts;
  const remark = problems.length > 0 ? `unusable: ${problems.join('; ')}` : embedded ? 'embedded' : '';
  return [
    architecture,
    shortCount(parameters),
    quantization,
    formatBytes(sizeBytes),
    contextLength === undefined ? '-' : String(contextLength),
    remark,
  ];
}
