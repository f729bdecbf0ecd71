import { Component, type ComponentType } from "preact";

/** A component that is drawn again only when one of its properties is another value. */
export function memo<P extends object>(Inner: ComponentType<P> | ((props: P) => preact.ComponentChild)) {
  const Drawn = Inner as ComponentType<P>;
  return class Memo extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      const now = this.props as Record<string, unknown>;
      return Object.entries(next).some(([key, value]) => now[key] !== value);
    }
    override render() {
      return <Drawn {...(this.props as P)} />;
    }
  };
}
