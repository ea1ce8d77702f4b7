import { table } from './help-table.ts';
import { flagOf, optionNames, optionTable } from './options.ts';

const synopsis = [
  'Usage:',
  '  node dist/host.js --gpu [options]        serve a model',
  '  node dist/host.js [options]              serve without a resident model',
  '  node dist/host.js pull REPO[:FILE]       download a model ([--revision REV] [--data-dir DIR] [--quiet])',
  '  node dist/host.js models list            the pulled models ([--json])',
  '  node dist/host.js models show NAME       all about one: weights, memory, tokenizer ([--json])',
  '  node dist/host.js models pull REPO       the same as pull',
  '  node dist/host.js models rm NAME         delete a pulled model',
  '  node dist/host.js models verify [NAME]   check pulled models against their checksums ([--json])',
  '  node dist/host.js mcp list               the MCP servers of --config FILE, and how they are ([--json])',
  '  node dist/host.js mcp show NAME          the tools of one, and what keeps them from agents ([--json])',
  '  node dist/host.js mcp pins NAME          the hashes to pin its tools by, as TOML ([--json])',
  '  node dist/host.js receipts verify [FILE] check the chain of work receipts, or one from GET .../receipt',
  '                                           ([--key KEY] [--database URL] [--json])',
  '  node dist/host.js recorder racks         what is kept of what is said, and how long ([--json])',
  '  node dist/host.js recorder grants        who may read and write it ([--rack RACK] [--json])',
  '  node dist/host.js recorder grant --rack RACK --verbs read,write --expires 30d',
  '                                           let the bearer do so ([--to peer:NAME] [--from beginning]',
  '                                           [--database URL] [--json])',
  '  node dist/host.js recorder token --rack RACK',
  '                                           a token to write with ([--expires 7d] [--label TEXT]',
  '                                           [--to peer:NAME] [--json])',
  '  node dist/host.js recorder revoke ID     end a grant or a token ([--json])',
  '  node dist/host.js recorder review        who did what ([--rack RACK] [--after N] [--json])',
];

export function helpText(version: string): string {
  const rows = optionNames.map((name) => {
    const row = optionTable[name];
    return [`${flagOf(name)}${'value' in row ? ` ${row.value}` : ''}`, row.help] as const;
  });
  return [
    `lathe ${version}: a WebGPU-first inference host`,
    '',
    ...synopsis,
    '',
    'Options (each is also a key of the configuration file, with _ for -; flags win):',
    ...table([
      ...rows,
      ['--config FILE', 'read options from a TOML file'],
      ['-h, --help', 'print this and exit'],
      ['-v, --version', 'print the version and exit'],
    ]),
    '',
    'Environment:',
    ...table([
      ['LATHE_DATA_DIR', 'the default of --data-dir'],
      ['HF_TOKEN', 'the token that pull and hf: models send'],
      ['HF_ENDPOINT', 'the hub that pull and hf: models ask'],
      ['OTEL_...', 'the standard variables of OpenTelemetry; docs/telemetry.md has those that are heard'],
    ]),
    '',
  ].join('\n');
}
