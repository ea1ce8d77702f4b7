import { type ModelAlias, residentTarget } from '../words/model-alias.ts';
import { formatValue } from './usage.ts';

/** Parses aliases written as `NAME=MODEL`; `faults` has a message for each that is wrong. */
export function parseAliases(texts: readonly string[]): {
  readonly aliases: readonly ModelAlias[];
  readonly faults: readonly string[];
} {
  const aliases: ModelAlias[] = [];
  const faults: string[] = [];
  for (const text of texts) {
    const [name = '', target, ...more] = text.split('=').map((part) => part.trim().replace(/:latest$/, ''));
    const fault =
      target === undefined || more.length > 0
        ? "expected NAME=MODEL with one '='"
        : nameFault(name, target, aliases);
    if (fault === undefined && target !== undefined) aliases.push({ name, target });
    else faults.push(`${formatValue(text)}: ${fault}`);
  }
  return { aliases, faults };
}

function nameFault(name: string, target: string, earlier: readonly ModelAlias[]): string | undefined {
  if (name === '' || target === '')
    return `the ${name === '' ? 'name' : 'model'} is empty; expected NAME=MODEL`;
  if (!/^[^\s/]\S{0,199}$/.test(name)) return 'expected a name of at most 200 characters without spaces';
  if (name === residentTarget)
    return `'${residentTarget}' stands for the resident model; choose another name`;
  return earlier.some((other) => other.name === name) ? `the name '${name}' is given twice` : undefined;
}
