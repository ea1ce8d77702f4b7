import type { Settings } from '../config/toml.ts';
import { formatValue, UsageError } from '../config/usage.ts';
import { isLoopback } from '../http/host-guard.ts';
import { findOriginFault, isEveryOrigin } from '../http/origin-pattern.ts';

const variable = 'OLLAMA_ORIGINS';

/**
 * The patterns of `--allowed-origin`, or else of `OLLAMA_ORIGINS`. Throws `UsageError` with every fault.
 * @param host the address that the host listens on
 */
export function resolveAllowedOrigins(
  { allowed_origin: configured }: Pick<Settings, 'allowed_origin'>,
  env: Readonly<Record<string, string | undefined>>,
  host: string,
): readonly string[] {
  const source = configured ? '--allowed-origin' : variable;
  const patterns = configured ?? readVariable(env[variable]);
  const faults = patterns.flatMap((pattern) => {
    const fault = findOriginFault(pattern);
    if (fault !== undefined) return [`${source}: ${formatValue(pattern)}: ${fault}`];
    if (isLoopback(host) || !isEveryOrigin(pattern)) return [];
    return [
      `${source}: ${formatValue(pattern)} is refused with --host ${host}: there the pages keep a sign-in for the ` +
        'bearer token in a cookie; name the origins instead',
    ];
  });
  if (faults.length > 0) throw new UsageError(faults);
  return patterns;
}

/** Splits the variable at commas as Ollama does: quotes and spaces around the whole value are dropped. */
const readVariable = (value = ''): string[] =>
  value
    .replaceAll(/^["'\s]+|["'\s]+$/g, '')
    .split(',')
    .map((pattern) => pattern.trim())
    .filter((pattern) => pattern !== '');
