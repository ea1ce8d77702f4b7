import { formatTable } from './help-table.ts';
import { flagNameOf, optionNames, optionTable } from './options.ts';

const usageLines = [
  'Usage:',
  '  node dist/host.js --gpu [options]        serve a model',
  '  node dist/host.js [options]              serve without a resident model',
  '  node dist/host.js pull REPO[:FILE]       download a model ([--revision REV] [--data-dir DIR] [--quiet])',
  '  node dist/host.js models list            list pulled models ([--json])',
  '  node dist/host.js models show NAME       details of a model: weights, memory, tokenizer ([--json])',
  '  node dist/host.js models pull REPO       the same as pull',
  '  node dist/host.js models rm NAME         delete a pulled model',
  '  node dist/host.js models verify [NAME]   check pulled models against their checksums ([--json])',
  '  node dist/host.js mcp list               list the MCP servers of --config FILE and their states ([--json])',
  '  node dist/host.js mcp show NAME          the tools of a server, and why any are unavailable ([--json])',
  '  node dist/host.js mcp pins NAME          the hashes to pin its tools with, as TOML ([--json])',
  '  node dist/host.js receipts verify [FILE] verify the chain of work receipts, or one from GET .../receipt',
  '                                           ([--key KEY] [--database URL] [--json])',
  '  node dist/host.js recorder racks         list racks with their policies and retention ([--json])',
  '  node dist/host.js recorder grants        list read and write grants ([--rack RACK] [--json])',
  '  node dist/host.js recorder grant --rack RACK --verbs read,write --expires 30d',
  '                                           grant it to the bearer ([--to peer:NAME] [--from beginning]',
  '                                           [--database URL] [--json])',
  '  node dist/host.js recorder token --rack RACK',
  '                                           create a write token ([--expires 7d] [--label TEXT]',
  '                                           [--to peer:NAME] [--json])',
  '  node dist/host.js recorder revoke ID     revoke a grant or a token ([--json])',
  '  node dist/host.js recorder review        show the access log ([--rack RACK] [--after N] [--json])',
];

export function helpText(version: string): string {
  const rows = optionNames.map((name) => {
    const row = optionTable[name];
    return [`${flagNameOf(name)}${'value' in row ? ` ${row.value}` : ''}`, row.help] as const;
  });
  return [
    `lathe ${version}: a WebGPU-first inference host`,
    '',
    ...usageLines,
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
