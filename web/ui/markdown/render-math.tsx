/** TeX to MathML elements, by Temml. The module and its library are loaded with the first formula. */
import { createElement, Fragment, type ReactNode } from 'react';
import temml from 'temml';
import 'temml/dist/Temml-Local.css';

/** A node of Temml's result. */
interface MathTreeNode {
  /** Name of the element; undefined for a text and for a list of nodes. */
  readonly type?: string;
  readonly text?: string;
  readonly attributes?: Readonly<Record<string, unknown>>;
  readonly classes?: readonly string[];
  readonly style?: Readonly<Record<string, unknown>>;
  readonly children?: readonly MathTreeNode[];
}

const options = {
  throwOnError: true,
  // No links, no images, no attributes of HTML.
  trust: false,
  strict: false,
  // In em: a formula cannot cover the page.
  maxSize: [20, 20] as [number, number],
  // Macros that grow end with an error.
  maxExpand: 200,
};

/** Most elements of a formula. */
const maxElements = 3000;

const elements: ReadonlySet<string> = new Set(
  (
    'math mrow mi mn mo ms mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover ' +
    'mmultiscripts mprescripts none mtable mtr mtd mpadded mphantom mstyle merror menclose'
  ).split(' '),
);
const attributes: ReadonlySet<string> = new Set(
  (
    'display displaystyle scriptlevel mathvariant stretchy fence form separator lspace rspace symmetric largeop ' +
    'movablelimits minsize maxsize accent accentunder linethickness width height depth voffset columnalign rowspacing ' +
    'columnspacing columnlines rowlines align dir columnspan rowspan notation'
  ).split(' '),
);
const styles =
  /^(?:color|backgroundColor|display|textAlign|whiteSpace|fontWeight|(?:padding|margin|border|width|height)\w*)$/;
const styleValue = /^[\w#.%, -]{1,60}$/;

/**
 * Elements of a formula. Only MathML elements and attributes of the lists above are made, so that no text becomes HTML.
 * @returns undefined where the text is no valid TeX, or is too large
 */
export function renderMath(tex: string, isDisplay: boolean): ReactNode | undefined {
  try {
    const tree = temml.__renderToMathMLTree(tex, { ...options, displayMode: isDisplay }) as MathTreeNode;
    let count = 0;
    const toElement = (node: MathTreeNode, key: number): ReactNode => {
      if (++count > maxElements) throw new Error('too many elements');
      if (node.text !== undefined) return node.text;
      const children = node.children?.map(toElement) ?? [];
      if (node.type === undefined || !elements.has(node.type))
        return createElement(Fragment, { key }, ...children);
      return createElement(node.type, { key, ...propsOf(node) }, ...children);
    };
    return toElement(tree, 0);
  } catch {
    return undefined;
  }
}

function propsOf({ attributes: own = {}, classes = [], style = {} }: MathTreeNode): object {
  const className = classes.filter((name) => name !== '').join(' ');
  const allowed = ([name, value]: readonly [string, unknown]) =>
    styles.test(name) && styleValue.test(String(value));
  return {
    ...Object.fromEntries(
      Object.entries(own)
        .filter(([name]) => attributes.has(name))
        .map(([name, value]) => [name, String(value)]),
    ),
    ...(className === '' ? {} : { className }),
    style: Object.fromEntries(Object.entries(style).filter(allowed)),
  };
}
