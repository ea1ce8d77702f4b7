import { table } from './help-table.ts';
import { flagOf, optionNames, optionTable } from './options.ts';

const synopsis = [
  'Usage:',
  '  node dist/host.js --gpu [options]        serve a model',
  '  node dist/host.js [options]              serve without a resident model',
  '  node dist/host.js pull REPO[:FILE]       download a model ([--revision REV] [--data-dir DIR] [--quiet])',
  '  node dist/host.js models list            list the pulled models ([--json])',
  '  node dist/host.js models show NAME       show a model: weights, memory, tokenizer ([--json])',
  '  node dist/host.js models pull REPO       the same as pull',
  '  node dist/host.js models rm NAME         delete a pulled model',
  '  node dist/host.js models verify [NAME]   verify pulled models against their checksums ([--json])',
  '  node dist/host.js mcp list               list the MCP servers in --config FILE and their states ([--json])',
  '  node dist/host.js mcp show NAME          show the tools of a server and whether agents can use them ([--json])',
  '  node dist/host.js mcp pins NAME          print the hashes that pin its tools, as TOML ([--json])',
  '  node dist/host.js receipts verify [FILE] verify the chain of work receipts, or one receipt saved from',
  '                                           GET .../receipt ([--key KEY] [--database URL] [--json])',
  '  node dist/host.js recorder racks         list the racks: recorded content, retention, size ([--json])',
  '  node dist/host.js recorder grants        list the grants and write tokens ([--rack RACK] [--json])',
  '  node dist/host.js recorder grant --rack RACK --verbs read,write --expires 30d',
  '                                           grant access to a rack to the bearer token ([--to peer:NAME]',
  '                                           [--from beginning] [--database URL] [--json])',
  '  node dist/host.js recorder token --rack RACK',
  '                                           create a write token for a rack ([--expires 7d] [--label TEXT]',
  '                                           [--to peer:NAME] [--json])',
  '  node dist/host.js recorder revoke ID     revoke a grant or a token ([--json])',
  '  node dist/host.js recorder review        print the log of recorder actions ([--rack RACK] [--after N] [--json])',
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
    'Options (each is also a key of the configuration file, written with _ instead of -; flags take precedence):',
    ...table([
      ...rows,
      ['--config FILE', 'read options from a TOML file'],
      ['-h, --help', 'print this help and exit'],
      ['-v, --version', 'print the version and exit'],
    ]),
    '',
    'Environment:',
    ...table([
      ['LATHE_DATA_DIR', 'default of --data-dir'],
      ['HF_TOKEN', 'Hugging Face token for pull and hf: models'],
      ['HF_ENDPOINT', 'hub URL for pull and hf: models (default: https://huggingface.co)'],
      ['OTEL_...', 'standard OpenTelemetry variables; docs/telemetry.md lists the supported ones'],
    ]),
    '',
  ].join('\n');
}
