import type { ReactNode } from 'react';
import { Button } from '../../parts/index.tsx';
import css from './observe.module.css';

/** Edits a list in a query: items can be changed, removed and added. */
export function ListEditor<Item>(props: {
  title: string;
  /** Name of an item for its buttons, for example `condition`. */
  one: string;
  items: readonly Item[];
  change: (items: readonly Item[]) => void;
  fresh: () => Item;
  most: number;
  /** Validation message of an item. */
  faultAt: (index: number) => string | undefined;
  children: (item: Item, set: (change: Partial<Item>) => void, name: string) => ReactNode;
}) {
  const { title, one, items, change, fresh, most, faultAt, children } = props;
  return (
    <fieldset className={css['list']}>
      <legend>{title}</legend>
      {items.map((item, index) => {
        const name = `${one} ${index + 1}`;
        const set = (next: Partial<Item>) =>
          change(items.map((it, n) => (n === index ? { ...it, ...next } : it)));
        return (
          // oxlint-disable-next-line react/no-array-index-key -- items have no key other than their index
          <div key={index}>
            <div className={css['line']}>
              {children(item, set, name)}
              <Button
                aria-label={`Remove ${name}`}
                onClick={() => change(items.filter((_, n) => n !== index))}
              >
                Remove
              </Button>
            </div>
            {faultAt(index) !== undefined && <div className={css['wrong']}>{faultAt(index)}</div>}
          </div>
        );
      })}
      {items.length < most && (
        <div>
          <Button onClick={() => change([...items, fresh()])}>
            Add {/^[aeiou]/.test(one) ? 'an' : 'a'} {one}
          </Button>
        </div>
      )}
    </fieldset>
  );
}

/** A compact `select` with an `aria-label`. A value that is not among the options stays selectable. */
export function LineSelect(props: {
  label: string;
  value: string;
  of: readonly (string | readonly [value: string, said: string])[];
  choose: (value: string) => void;
}) {
  const { label, value, of, choose } = props;
  const options = of.map((one) => (typeof one === 'string' ? ([one, one] as const) : one));
  const known = options.some(([name]) => name === value);
  return (
    <select
      aria-label={label}
      className={css['control']}
      value={value}
      onChange={({ target }) => choose(target.value)}
    >
      {!known && <option value={value}>{value === '' ? 'choose ...' : value}</option>}
      {options.map(([name, said]) => (
        <option key={name} value={name}>
          {said}
        </option>
      ))}
    </select>
  );
}
