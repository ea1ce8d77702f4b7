import type { ReactNode } from 'react';
import { Button } from '../../../ui/index.tsx';
import css from './observe.module.css';

/** Edits a list in a query: items can be changed, removed and added. */
export function ListEditor<Item>(props: {
  title: string;
  /** Name of an item for its buttons, for example `condition`. */
  itemName: string;
  items: readonly Item[];
  onChange: (items: readonly Item[]) => void;
  createItem: () => Item;
  maxItems: number;
  /** Validation message of an item. */
  faultAt: (index: number) => string | undefined;
  children: (item: Item, updateItem: (onChange: Partial<Item>) => void, name: string) => ReactNode;
}) {
  const { title, itemName, items, onChange, createItem, maxItems, faultAt, children } = props;
  return (
    <fieldset className={css['list']}>
      <legend>{title}</legend>
      {items.map((item, index) => {
        const name = `${itemName} ${index + 1}`;
        const updateItem = (next: Partial<Item>) =>
          onChange(items.map((it, n) => (n === index ? { ...it, ...next } : it)));
        return (
          // oxlint-disable-next-line react/no-array-index-key -- items have no key other than their index
          <div key={index}>
            <div className={css['line']}>
              {children(item, updateItem, name)}
              <Button
                aria-label={`Remove ${name}`}
                onClick={() => onChange(items.filter((_, n) => n !== index))}
              >
                Remove
              </Button>
            </div>
            {faultAt(index) !== undefined && <div className={css['wrong']}>{faultAt(index)}</div>}
          </div>
        );
      })}
      {items.length < maxItems && (
        <div>
          <Button onClick={() => onChange([...items, createItem()])}>
            Add {/^[aeiou]/.test(itemName) ? 'an' : 'a'} {itemName}
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
  of: readonly (string | readonly [value: string, text: string])[];
  choose: (value: string) => void;
}) {
  const { label, value, of: choices, choose } = props;
  const options = choices.map((itemName) =>
    typeof itemName === 'string' ? ([itemName, itemName] as const) : itemName,
  );
  const isListed = options.some(([name]) => name === value);
  return (
    <select
      aria-label={label}
      className={css['control']}
      value={value}
      onChange={({ target }) => choose(target.value)}
    >
      {!isListed && <option value={value}>{value === '' ? 'choose ...' : value}</option>}
      {options.map(([name, text]) => (
        <option key={name} value={name}>
          {text}
        </option>
      ))}
    </select>
  );
}
