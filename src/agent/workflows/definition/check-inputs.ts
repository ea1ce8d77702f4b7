import { isRecord } from '../../../util/json.ts';
import type { Draft } from './draft.ts';
import type { Findings } from './findings.ts';
import { findInputFault } from './inputs.ts';
import { suggestName } from './near-miss.ts';

/** Checks that defaults and enumerated values have the input's type, and that the workspace names an input. */
export function checkInputs({ inputs, document }: Draft, findings: Findings): void {
  for (const [name, input] of inputs) {
    if (input === undefined) continue;
    const path = ['inputs', name];
    for (const [index, value] of (input.enum ?? []).entries()) {
      const fault = findInputFault({ type: input.type }, value);
      if (fault !== undefined) findings.error('bad_value', [...path, 'enum', index], fault);
    }
    const fault = input.default === undefined ? undefined : findInputFault(input, input.default);
    if (fault !== undefined) findings.error('bad_default', [...path, 'default'], fault);
    if (input.required && input.default !== undefined)
      findings.warn('needless_required', [...path, 'required'], 'it has a default, so it is never missing');
  }
  const workspace = document.value['workspace'];
  const folder = isRecord(workspace) ? workspace['input'] : undefined;
  if (typeof folder !== 'string') return;
  const path = ['workspace', 'input'];
  if (!inputs.has(folder))
    findings.error(
      'unknown_input',
      path,
      `there is no [inputs.${folder.slice(0, 64)}]${suggestName(folder, [...inputs.keys()])}`,
    );
  else if (inputs.get(folder) !== undefined && inputs.get(folder)?.type !== 'string')
    findings.error('wrong_type', path, `the input '${folder}' names a folder, so its type must be string`);
}
