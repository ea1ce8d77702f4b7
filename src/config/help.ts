import { formatTable } from './help-table.ts';
import { flagNameOf, optionNames, optionTable } from './options.ts';
import { commandOf } from '../terminal/program.ts';

const host = commandOf('host');

const commandRows: readonly (readonly [string, string])[] = [
  [`${host} --gpu [options]`, 'serve a model'],
  [`${host} [options]`, 'serve without a resident model'],
  [`${host} pull REPO[:FILE]`, 'download a model ([--revision REV] [--data-dir DIR] [--quiet])'],
  [`${host} models list`, 'list pulled models ([--json])'],
  [`${host} models show NAME`, 'details of a model: weights, memory, tokenizer ([--json])'],
  [`${host} models pull REPO`, 'the same as pull'],
  [`${host} models rm NAME`, 'delete a pulled model'],
  [`${host} models verify [NAME]`, 'check pulled models against their checksums ([--json])'],
  [`${host} mcp list`, 'list the MCP servers of --config FILE and their states ([--json])'],
  [`${host} mcp show NAME`, 'the tools of a server, and why any are unavailable ([--json])'],
  [`${host} mcp pins NAME`, 'the hashes to pin its tools with, as TOML ([--json])'],
  [
    `${host} receipts verify [FILE]`,
    'verify the chain of work receipts, or one from GET .../receipt ([--key KEY] [--database URL] [--json])',
  ],
  [`${host} recorder racks`, 'list racks with their policies and retention ([--json])'],
  [`${host} recorder grants`, 'list read and write grants ([--rack RACK] [--json])'],
  [
    `${host} recorder grant`,
    'grant a rack to the bearer: --rack RACK --verbs read,write --expires 30d ([--to peer:NAME] [--from beginning] [--database URL] [--json])',
  ],
  [
    `${host} recorder token`,
    'create a write token: --rack RACK ([--expires 7d] [--label TEXT] [--to peer:NAME] [--json])',
  ],
  [`${host} recorder revoke ID`, 'revoke a grant or a token ([--json])'],
  [`${host} recorder review`, 'show the access log ([--rack RACK] [--after N] [--json])'],
];

export function helpText(version: string): string {
  const rows = optionNames.map((name) => {
    const row = optionTable[name];
    return [`${flagNameOf(name)}${'value' in row ? ` ${row.value}` : ''}`, row.help] as const;
  });
  return [
    `lathe ${version}: a WebGPU-first inference host`,
    '',
    'Usage:',
    ...formatTable(commandRows, 110),
    '',
    'Options (each is also a key of the configuration file, with _ for -; flags win):',
    ...formatTable([
      ...rows,
      ['--config FILE', 'read options from a TOML file'],
      ['-h, --help', 'print this help and exit'],
      ['-v, --version', 'print the version and exit'],
    ]),
    '',
    'Environment:',
    ...formatTable([
      ['LATHE_DATA_DIR', 'the default of --data-dir'],
      ['HF_TOKEN', 'Hugging Face token for pull and hf: models'],
      ['HF_ENDPOINT', 'Hugging Face hub URL for pull and hf: models'],
      ['OTEL_...', 'standard OpenTelemetry variables; docs/telemetry.md lists the supported ones'],
    ]),
    '',
  ].join('\n');
}
