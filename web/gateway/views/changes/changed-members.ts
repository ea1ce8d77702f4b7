import { formatNanodollars } from '../../../ui/format.ts';
import type { Change } from '../../api.ts';

interface ChangedMember {
  readonly name: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/**
 * The members of a change that differ, as text; amounts of money are in dollars.
 * @param nameOf the name of an account with this id
 */
export function changedMembers(
  { before, after }: Pick<Change, 'before' | 'after'>,
  nameOf: (id: string) => string | undefined,
): ChangedMember[] {
  const toText = (name: string, value: unknown) => {
    const text = textOf(name, value);
    const named = text === undefined ? undefined : nameOf(text);
    return named === undefined ? text : `${named} (${text})`;
  };
  const names = new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})]);
  return (
    [...names]
      .map((name) => ({
        name: name.replace(/_nanodollars$|_id$/, ''),
        before: toText(name, before?.[name]),
        after: toText(name, after?.[name]),
      }))
      // What is created without a setting has none.
      .filter((member) => member.before !== member.after && !(before === null && member.after === 'none'))
  );
}

/** Members that are amounts: the log has them as text. */
const amounts = /^(?:cap|amount|credit|included|balance|spent)$|_nanodollars$/;

function textOf(name: string, value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (value === null) return 'none';
  if (Array.isArray(value)) return value.join(', ');
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return amounts.test(name) && /^-?\d+$/.test(text) ? formatNanodollars(text) : text;
}
