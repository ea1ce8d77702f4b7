import { findRedactionFaults } from '../../recorder/policy.ts';
import type { Hook } from '../hooks/types.ts';
import type { ConfigFaults } from './config-faults.ts';
import { suggestion } from './deployment-checks.ts';
import type { HookTable } from './schemas.ts';
import type { SecretSources } from './secret-sources.ts';
import type { Tables } from './tables.ts';

const defaultTimeoutMs = 2000;
/** What `redact = true` stands for. */
const allSets = ['@credentials', '@emails'];

const expressionsOf = ({ redact }: HookTable): readonly string[] =>
  redact === true ? allSets : redact === false || redact === undefined ? [] : redact;

/** Reads the secrets of hooks; those with faults are left out. */
export async function readHooks({ hooks }: Tables, sources: SecretSources): Promise<Hook[]> {
  const read: Hook[] = [];
  for (const { path, value } of hooks) {
    const { name, models, stage = 'before', url, timeout_ms: timeoutMs = defaultTimeoutMs } = value;
    const expressions = expressionsOf(value);
    if (expressions.length > 0) read.push({ kind: 'redact', name, models, stage: 'before', expressions });
    if (url === undefined) continue;
    const at = { env: [...path, 'secret_env'], file: [...path, 'secret_file'] };
    const key = await sources.webhookKey(value.secret_env, value.secret_file, at);
    const { on_failure: onFailure = 'block' } = value;
    if (key) read.push({ kind: 'http', name, models, stage, url, key, timeoutMs, onFailure });
  }
  return read;
}

/** Adds a fault for each hook that could not do what its table says. */
export function checkHooks({ hooks }: Tables, modelIds: readonly string[], faults: ConfigFaults): void {
  for (const [index, { path, value }] of hooks.entries()) {
    const { name, url, redact, stage, models = [], secret_env: env, secret_file: file } = value;
    if (hooks.slice(0, index).some((earlier) => earlier.value.name === name))
      faults.add([...path, 'name'], `'${name}' is the name of an earlier hook, too`);
    const isRedacting = redact !== undefined && redact !== false;
    if ((url === undefined) === !isRedacting)
      faults.add(path, 'needs one of url = "https://..." and redact = true');
    if (url !== undefined && env === undefined && file === undefined)
      faults.add(path, 'needs secret_env = "NAME" or secret_file = "PATH", which signs what is posted');
    if (env !== undefined && file !== undefined)
      faults.add([...path, 'secret_file'], 'secret_env is set too; keep one of the two');
    if (isRedacting) {
      for (const member of ['secret_env', 'secret_file', 'timeout_ms', 'on_failure'] as const)
        if (value[member] !== undefined) faults.add([...path, member], 'belongs to hooks with a url');
      if (stage === 'after')
        faults.add([...path, 'stage'], 'must be "before": requests are redacted, answers are not');
      for (const { index: place, message } of findRedactionFaults(expressionsOf(value)))
        faults.add([...path, 'redact', ...(place === undefined ? [] : [place])], message);
    }
    for (const [place, id] of models.entries())
      if (!modelIds.includes(id))
        faults.add([...path, 'models', place], `there is no model '${id}'${suggestion(id, modelIds)}`);
  }
}
