/** Elements without a framework: text is always text, never markup. */

type Child = Node | string | null;
type Attributes = Record<string, string | number | boolean | EventListener>;

export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (typeof value === "boolean") made.toggleAttribute(name, value);
    else made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function button(label: string, kind: string, click: () => void): HTMLButtonElement {
  return element("button", { type: "button", class: kind, click }, label);
}
