#!/usr/bin/env python3
"""Deterministic benchmark data for backup tools (seeded; needs only python3 + numpy-free stdlib).
  make_data.py base DIR             make DIR/{src,prof,big}
  make_data.py edit1pct DIR         change 1% of src files, touch rows in the SQLite files
  make_data.py insert1m DIR         insert 1 MB in the middle of big/vm.img (1 GB)
  make_data.py rename DIR           rename one src top folder (about 1/20 of the files)
  make_data.py add100k DIR          one folder with 100,000 small files
Env: SCALE=1.0 (0.05 for a quick run).
"""
import os, sys, random, sqlite3, hashlib, struct, time
SCALE=float(os.environ.get("SCALE","1"))
T0=1_700_000_000
def R(*k): return random.Random("capsule:"+":".join(map(str,k)))
SYL="ba co di fu ge hi jo ku la me ni po qu re si ta ve wo xi za con trans get set make load init state node list tree map key val buf ptr len idx ctx err res out tmp cfg req url path file line word name type kind size next prev head tail".split()
def words(r,n):
    return ["".join(r.choice(SYL) for _ in range(r.choice((1,2,2,3,3,4)))) for _ in range(n)]
KW="if else for while return let mut fn def class import from in match struct impl pub const static async await try except raise with as None true false self new delete public void int string".split()
def line_pool(r,n):
    ident=words(r,6000); w=[1/(i+1) for i in range(len(ident))]
    pick=r.choices(ident,w,k=n*6); out=[]
    for i in range(n):
        a,b,c,d,e,f=pick[6*i:6*i+6]; k=r.random(); ind=" "*(4*r.choice((0,1,1,2,2,3)))
        if k<.22: s=f"{ind}let {a}_{b} = {c}.{d}({e}, {r.randint(0,9999)});"
        elif k<.40: s=f"{ind}if {a}.{b} != {c}::{d} {{ return {e}({f}); }}"
        elif k<.52: s=f"{ind}// {a} {b} {c}: the {d} of {e} when {f} is {r.choice(KW)} {r.choice(KW)}"
        elif k<.62: s=f"from {a}.{b} import {c}, {d}, {e}_{f}"
        elif k<.72: s=f"{ind}\"{a}-{b}\": [{r.randint(0,1<<30)}, \"{r.getrandbits(64):016x}\"],"
        elif k<.80: s=""
        elif k<.90: s=f"{ind}pub fn {a}_{b}({c}: &{d.title()}, {e}: usize) -> Result<{f.title()}> {{"
        else: s=f"{ind}}}" 
        out.append(s+"\n")
    return out
def put(p,b,mt):
    with open(p,"wb") as f: f.write(b)
    os.utime(p,(mt,mt))
def src(root):
    r=R("src"); pool=line_pool(r,150_000); nf=int(40_000*SCALE); exts=[".rs",".py",".js",".ts",".c",".h",".json",".md",".txt",".html"]
    lic="".join(pool[:18]).encode(); made=0; n=0; recent=[]
    for top in range(20):
        for pk in range(10):
            base=f"{root}/src/t{top:02d}/pkg{pk:02d}"; left=nf//200
            d=base
            while left>0:
                take=min(left,r.randint(4,24)); left-=take
                d=base+"/"+"/".join(words(r,r.choice((1,1,2,2,3)))); os.makedirs(d,exist_ok=True)
                for i in range(take):
                    x=r.random(); mt=T0+r.randint(0,30_000_000)
                    if recent and x<.12: b=r.choice(recent)                    # exact duplicate (vendored copy)
                    elif recent and x<.16:                                    # near duplicate
                        b=bytearray(r.choice(recent)); q=r.randint(0,len(b)); b[q:q]=r.choice(pool).encode(); b=bytes(b)
                    elif x<.19: b=r.randbytes(int(min(600_000,r.lognormvariate(9.0,1.1))))   # png, wasm, .gz
                    else:
                        want=int(min(900_000,r.lognormvariate(8.30,1.25)))+40
                        s=r.randint(0,len(pool)-400); out=[lic if r.random()<.3 else b""]; tot=len(out[0])
                        loc=[pool[r.randrange(len(pool))] for _ in range(24)]  # lines that this file repeats
                        while tot<want:
                            t=(r.choice(loc) if r.random()<.25 else pool[r.randrange(len(pool))]).encode(); out.append(t); tot+=len(t)
                        b=b"".join(out)
                    if len(recent)<3000: recent.append(b)
                    else: recent[r.randrange(3000)]=b
                    put(f"{d}/{r.choice(SYL)}{n:05d}{r.choice(exts)}",b,mt); n+=1; made+=len(b)
    print(f"src: {n} files, {made/1e6:.0f} MB")
def mkdb(p,r,pool,mb):
    c=sqlite3.connect(p); c.execute("pragma page_size=4096"); c.execute("pragma journal_mode=off"); c.execute("pragma synchronous=off")
    c.execute("create table urls(id integer primary key,url text,title text,visits int,last int)"); c.execute("create table blobs(id integer primary key,k text,v blob)")
    c.execute("create index iu on urls(url)"); n=0; i=0
    while n<mb*1e6:
        rows=[]; bl=[]
        for _ in range(500):
            i+=1; u=f"https://{r.choice(SYL)}{r.choice(SYL)}.example/{r.getrandbits(40):x}/{pool[r.randrange(len(pool))].strip()[:60]}"
            rows.append((i,u,pool[r.randrange(len(pool))].strip(),r.randint(1,99),13_300_000_000_000+r.getrandbits(40))); n+=len(u)*2+60
            if i%5==0:
                v=r.randbytes(r.randint(100,1500)) if i%2 else pool[r.randrange(len(pool))].encode()*r.randint(2,9); bl.append((i,f"k{i}",v)); n+=len(v)+20
        c.executemany("insert into urls values(?,?,?,?,?)",rows); c.executemany("insert into blobs values(?,?,?)",bl)
    c.commit(); c.close()
def prof(root):
    r=R("prof"); pool=line_pool(r,20_000); P=f"{root}/prof"; tot=0; n=0
    for b in ("chrome/Default","chrome/Profile 1","firefox/x9.default"):
        os.makedirs(f"{P}/{b}",exist_ok=True)
        for nm,mb in (("History",22),("Cookies",5),("places.sqlite",14),("Web Data",2),("favicons.sqlite",10),("Login Data",1)):
            p=f"{P}/{b}/{nm}"; mkdb(p,r,pool,max(.2,mb*SCALE)); os.utime(p,(T0,T0)); tot+=os.path.getsize(p); n+=1
        for db in ("IndexedDB/https_app_0.indexeddb.leveldb","Local Storage/leveldb","Service Worker/Database","Sync Data/LevelDB"):
            d=f"{P}/{b}/{db}"; os.makedirs(d,exist_ok=True)
            for k in range(max(1,int(5*SCALE))):
                out=[]; s=0
                while s<1_300_000*min(1,SCALE*2):    # sorted keys, prefix shared, half random values: like snappy blocks
                    v=f"_https://app{r.randint(0,9)}\x00\x01{r.getrandbits(48):012x}".encode()+(r.randbytes(r.randint(20,120)) if r.random()<.6 else pool[r.randrange(len(pool))].encode()); out.append(struct.pack("<IH",s,len(v))+v); s+=len(v)+6
                x=b"".join(out); put(f"{d}/{k+3:06d}.ldb",x,T0+k); tot+=len(x); n+=1
            put(f"{d}/CURRENT",b"MANIFEST-000001\n",T0); put(f"{d}/LOG","".join(pool[:200]).encode(),T0); n+=2
        d=f"{P}/{b}/Cache/Cache_Data"; os.makedirs(d,exist_ok=True)
        for k in range(int(900*SCALE)):
            x=r.randbytes(int(min(400_000,r.lognormvariate(9.3,1.0)))); put(f"{d}/{k:08x}_0",x,T0+k); tot+=len(x); n+=1
        put(f"{P}/{b}/Preferences",("{"+"".join(f'"{w}":{{"{v}":{i}}},' for i,(w,v) in enumerate(zip(words(r,4000),words(r,4000))))+"}").encode(),T0); n+=1
    print(f"prof: {n} files, {tot/1e6:.0f} MB")
def big(root):
    r=R("big"); pool=line_pool(r,40_000); os.makedirs(f"{root}/big",exist_ok=True); tot=0
    text="".join(pool).encode()
    def textblk(n):
        o=[]; s=0
        while s<n:
            q=r.randrange(len(text)-20000); k=r.randint(200,16000); o.append(text[q:q+k]); s+=k
        return b"".join(o)[:n]
    def mix(p,mb,z,t):   # share of zero, text; the rest is random
        nonlocal tot
        with open(p,"wb") as f:
            left=int(mb*SCALE*(1<<20)); prev=[]
            while left>0:
                n=min(left,r.choice((65536,131072,262144,1<<20))); x=r.random()
                if x<z: b=bytes(n)
                elif x<z+t: b=textblk(n)
                elif x<z+t+.05 and prev: b=r.choice(prev)[:n]; n=len(b)   # repeated content
                else: b=r.randbytes(n); prev=(prev+[b])[-40:]
                f.write(b); left-=n
            tot+=f.tell()
        os.utime(p,(T0,T0))
    mix(f"{root}/big/vm.img",1024,.25,.40); mix(f"{root}/big/model.bin",384,.02,.10); mix(f"{root}/big/video.mkv",256,0,0); mix(f"{root}/big/dump.sql",384,0,.97)
    print(f"big: 4 files, {tot/1e6:.0f} MB")
def allsrc(root):
    L=[]
    for d,ds,fs in os.walk(f"{root}/src"):
        ds.sort(); L+= [f"{d}/{f}" for f in sorted(fs)]
    return L
def edit1pct(root):
    r=R("edit",os.environ.get("EDIT","1")); L=allsrc(root); n=0
    for p in r.sample(L,max(1,len(L)//100)):
        b=bytearray(open(p,"rb").read()); q=r.randint(0,len(b)); b[q:q]=b"// edited %016x\n"%r.getrandbits(64); open(p,"wb").write(b); n+=1
    for d,ds,fs in os.walk(f"{root}/prof"):
        for f in sorted(fs):
            if f in("History","Cookies","places.sqlite"):
                c=sqlite3.connect(f"{d}/{f}"); c.execute("pragma journal_mode=off"); m=c.execute("select max(id) from urls").fetchone()[0]
                for k in range(60): c.execute("update urls set visits=visits+1,last=last+? where id=?",(r.randint(1,9999),r.randint(1,m)))
                c.commit(); c.close()
    print(f"edit1pct: {n} files")
def insert1m(root):
    p=f"{root}/big/vm.img"; r=R("ins"); b=open(p,"rb").read(); h=len(b)//2+12345; x=r.randbytes(1<<20)
    with open(p,"r+b") as f: f.seek(h); f.write(x+b[h:])
    print("insert1m: done")
def rename(root): os.rename(f"{root}/src/t03",f"{root}/src/t03-renamed"); print("rename: done")
def add100k(root):
    r=R("100k"); d=f"{root}/many"; os.makedirs(d); n=int(100_000*SCALE)
    for i in range(n):
        with open(f"{d}/item-{i:06d}.json","wb") as f: f.write(b'{"id":%d,"h":"%032x","v":%d}\n'%(i,r.getrandbits(128),r.getrandbits(30)))
    print(f"add100k: {n} files")
if __name__=="__main__":
    what,root=sys.argv[1],sys.argv[2]; os.makedirs(root,exist_ok=True); t=time.time()
    if what=="base": src(root); prof(root); big(root)
    else: globals()[what](root)
    print(f"{what}: {time.time()-t:.1f}s",file=sys.stderr)
