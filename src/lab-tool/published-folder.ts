/** The files of a published config: the signed document, and what people and tools read of it. All follow from the document. */
import { createHash } from 'node:crypto';
import { renderKernelFile } from '../lab/kernel-header.ts';
import type { ConfigEnvelope, Finding } from '../lab/types.ts';
import { verdictText } from './bench-text.ts';
import { formatChange, formatError, formatNumber, formatRatio, pluralize } from './figures.ts';
import { groupByLayer } from './layer-groups.ts';

export const configFile = 'config.json';
const readmeFile = 'README.md';

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
const json = (value: unknown): string => `${JSON.stringify(value, undefined, 2)}\n`;
/** Text from a config in a table of Markdown. */
const cell = (text: string): string =>
  text.replaceAll(/[\n\r]+/g, ' ').replaceAll(/[\\|`<>[\]]/g, (sign) => `\\${sign}`);

/**
 * Contents by path, relative to the folder.
 * @param text the config as canonical JSON, which its host signed
 */
export function publishedFiles(config: ConfigEnvelope, text: string): ReadonlyMap<string, string> {
  const files = new Map([
    [configFile, text],
    ...config.kernels.map(({ digest: _digest, ...kernel }): [string, string] => [
      `kernels/${kernel.name}.wgsl`,
      renderKernelFile(kernel),
    ]),
    ['report.json', json({ evidence: config.evidence, bench: config.bench ?? null })],
  ]);
  const { name, created_at, model, kernels, bindings, machine, fingerprint, signature } = config;
  const manifest = {
    name,
    created_at,
    signed_by: signature.key_id,
    model,
    kernels: kernels.map(({ source: _source, ...kernel }) => ({
      ...kernel,
      file: `kernels/${kernel.name}.wgsl`,
    })),
    bindings,
    machine: machine ?? null,
    fingerprint,
    files: Object.fromEntries([...files].map(([path, content]) => [path, `sha256:${sha256(content)}`])),
  };
  return files.set('manifest.json', json(manifest)).set(readmeFile, readme(config));
}

/** A finding for each file that is missing or differs from what the config says. The README is for people to edit. */
export async function changedFiles(
  config: ConfigEnvelope,
  text: string,
  read: (path: string) => Promise<string>,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  const add = (code: string, message: string) => findings.push({ code, severity: 'error', message });
  for (const [path, content] of publishedFiles(config, text)) {
    if (path === configFile || path === readmeFile) continue;
    const found = await read(path).catch(() => undefined);
    if (found === undefined) add('missing_file', `${path} is missing`);
    else if (found.replaceAll('\r\n', '\n') !== content)
      add('changed_file', `${path} differs from the signed config`);
  }
  return findings;
}

function readme(config: ConfigEnvelope): string {
  const {
    name,
    created_at: at,
    model,
    kernels,
    bindings,
    evidence,
    bench,
    machine,
    fingerprint,
    signature,
  } = config;
  const componentsOf = (kernel: string) =>
    groupByLayer(
      bindings
        .filter((one) => one.kernel === kernel)
        .flatMap(({ components }) => components.map((id) => ({ id }))),
      () => '',
    )
      .map(({ pattern }) => `\`${pattern}\``)
      .join(', ');
  const gateOf = (kernel: string) => {
    const { parity = [], stages = [], tolerance } = evidence[kernel] ?? {};
    const worst = parity.reduce((most, { nmse }) => Math.max(most, nmse ?? Infinity), 0);
    const codes = new Set(
      stages.flatMap(({ findings }) =>
        findings.filter(({ severity }) => severity === 'warning').map(({ code }) => code),
      ),
    );
    return [
      pluralize(parity.length, 'case'),
      `${formatError(worst)} of ${formatError(tolerance?.nmse)}`,
      tolerance ? `${tolerance.mode}, scale ${tolerance.scale}` : '-',
      [...codes].map(cell).join(', ') || 'none',
    ].join(' | ');
  };
  const lines = [
    `# ${cell(name)}`,
    '',
    `WGSL kernels for lathe, measured on ${cell(fingerprint.adapter)} with ${cell(model.architecture)} (\`${cell(model.digest)}\`), ${at}.`,
    '',
    '| kernel | op | runs | digest |',
    '| --- | --- | --- | --- |',
    ...kernels.map(
      (one) =>
        `| [${cell(one.name)}](kernels/${one.name}.wgsl) | ${cell(one.op)} | ${componentsOf(one.name) || '-'} | \`${one.digest.slice(0, 19)}\` |`,
    ),
    '',
    '## Correctness',
    '',
    'The error is the largest normalized mean squared error of all cases, and its limit.',
    '',
    '| kernel | cases | error | mode | warnings |',
    '| --- | --- | --- | --- | --- |',
    ...kernels.map((one) => `| ${cell(one.name)} | ${gateOf(one.name)} |`),
    '',
    '## Speed',
    '',
  ];
  if (bench) {
    const { result } = bench;
    lines.push(
      `${pluralize(result.rounds, 'round')}, ${cell(bench.at)}. The ratio is the median of built-in time by time of these kernels within rounds; the control is that of the built-in kernels against themselves.`,
      '',
      '| tokens/s | built-in | these kernels | ratio | 95 % interval | control | verdict |',
      '| --- | --: | --: | --: | --- | --: | --- |',
      ...[
        ...result.decode.map((row) => ({ ...row, what: `decode at ${row.context}` })),
        {
          ...result.prefill,
          what: `prefill of ${result.prefill.prompt_tokens}`,
          baseline_tps: result.baseline.prefill_tps,
          bound_tps: result.bound.prefill_tps,
        },
      ].map(
        ({ what, baseline_tps, bound_tps, ratio, ci95, control, verdict }) =>
          `| ${what} | ${formatNumber(baseline_tps)} | ${formatNumber(bound_tps)} | ${formatRatio(ratio)} | ${formatChange(ci95.low - 1)} to ${formatChange(ci95.high - 1)} | ${formatRatio(control.ratio)} | ${verdictText(verdict)} |`,
      ),
      ...result.warnings.map((warning) => `\n${cell(warning)}`),
    );
  } else lines.push('Not measured: the config was saved without a bench of exactly these bindings.');
  lines.push(
    '',
    '## Machine',
    '',
    `- Adapter: ${cell(fingerprint.adapter)}, ${cell(fingerprint.backend)}, ${cell(fingerprint.driver)}, Dawn ${cell(fingerprint.dawn)}`,
    ...(machine
      ? [
          `- Host: ${cell(machine.cpu)}, ${pluralize(machine.cores, 'core')}, ${cell(machine.os)}, load ${machine.load.toFixed(1)}, lathe ${cell(machine.lathe)}, Node ${cell(machine.node)}`,
        ]
      : []),
    `- Signed by \`${cell(signature.key_id)}\``,
    '',
    '## Use',
    '',
    '```sh',
    'node dist/lab.js verify .                                # signature, digests, reports, figures, and the files of this folder',
    `node dist/lab.js import ${configFile}                      # on a running host`,
    `node dist/host.js --gpu --kernels ${name} --trust-key ${signature.key_id}`,
    ...kernels.map((one) => `node dist/lab.js check kernels/${one.name}.wgsl`),
    '```',
    '',
    'A host runs the gate again on its own adapter before it binds a kernel.',
    '',
  );
  return lines.join('\n');
}
