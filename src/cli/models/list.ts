import { formatBytes } from '../../engine/index.ts';
import { locateModel } from '../model-location.ts';
import { formatJson } from '../../terminal/printable.ts';
import { formatCount } from '../ready-line.ts';
import type { CliContext } from '../cli-context.ts';
import { formatTable } from './format-table.ts';
import { type InspectionResult, inspectLocation } from './inspect.ts';
import type { PulledModel } from './pulled-models.ts';

/** Prints one line per model. The line of a model that cannot be used has the reason. */
export async function listModels(
  pulled: readonly PulledModel[],
  { cli, json, dataDir }: { cli: CliContext; json: boolean; dataDir: string },
): Promise<void> {
  const embedded = await locateModel(undefined, { packageRoot: cli.packageRoot, dataDir });
  const models = [
    {
      name: 'lathe-tiny',
      path: embedded.location,
      embedded: true,
      inspected: await inspectLocation(cli, embedded.location),
    },
  ];
  for (const { name, path, unfinished } of pulled)
    models.push({ name, path, embedded: false, inspected: await inspectPulled(cli, path, unfinished) });
  if (json) {
    const entries = models.map(({ inspected, ...model }) => ({ ...model, ...toJsonEntry(inspected) }));
    cli.stdout.write(`${formatJson(entries)}\n`);
    return;
  }
  const headings = ['NAME', 'ARCHITECTURE', 'PARAMETERS', 'QUANTIZATION', 'SIZE', 'CONTEXT', 'REMARK'];
  cli.stdout.write(
    formatTable(
      headings,
      models.map(({ name, embedded: own, inspected }) => [name, ...toCells(inspected, own)]),
    ),
  );
}

async function inspectPulled(
  cli: CliContext,
  path: string,
  unfinished: readonly string[],
): Promise<InspectionResult> {
  if (unfinished.length === 0) return await inspectLocation(cli, path);
  return {
    problem: `the download is incomplete (${unfinished.join(', ')}); pull it again to resume`,
  };
}

function toJsonEntry(inspected: InspectionResult) {
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

function toCells(inspected: InspectionResult, embedded: boolean): string[] {
  if ('problem' in inspected) return ['-', '-', '-', '-', '-', `unusable: ${inspected.problem}`];
  const { architecture, parameters, quantization, sizeBytes, contextLength, problems } = inspected.facts;
  const remark = problems.length > 0 ? `unusable: ${problems.join('; ')}` : embedded ? 'embedded' : '';
  return [
    architecture,
    formatCount(parameters),
    quantization,
    formatBytes(sizeBytes),
    contextLength === undefined ? '-' : String(contextLength),
    remark,
  ];
}
